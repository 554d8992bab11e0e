"""The central buffer as an actor, and as the loop's `Buffer` port."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.deadlines import within
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.replay import PrioritisedReuse, ReplayConfig
from rlvr_platform.errors import DeadlineError
from rlvr_platform.memory import peak_memory
from rlvr_platform.replay.buffer import BufferState, RolloutBuffer
from rlvr_platform.replay.experience import ExperienceReplay
from rlvr_platform.replay.records import Draw
from rlvr_platform.replay.storage import load_experience, save_experience
from rlvr_platform.telemetry.rollouts import Recorded, write_rollouts
from rlvr_platform.types import (
    Fate,
    GradedGroup,
    GradedGroups,
    GroupSummary,
    RolloutGroup,
    Verdict,
)


@ray.remote
class ReplayBufferActor:
    """Owns every group between its generation and its last use.

    The tokens are put into the object store from here: an object dies with the process that
    put it, and a rollout worker may be replaced at any time.
    """

    def __init__(self, config: ExperimentConfig) -> None:
        self._config = config.replay
        self._buffer = RolloutBuffer(config.replay.capacity_groups)
        # Without reuse it stays empty: the loop neither keeps nor draws.
        reuse = config.replay.reuse
        stored = reuse if isinstance(reuse, PrioritisedReuse) else PrioritisedReuse()
        self._experience = ExperienceReplay(stored, config.seed)
        self._changed = asyncio.Condition()
        self._taken: dict[int, list[GradedGroup]] = {}
        self._drawn: dict[int, Draw] = {}

    async def expect(self, step: int, group_ids: Sequence[int], more: bool) -> None:
        """Reserve places; waits while the buffer is full, unless none is asked for."""
        async with self._changed:
            if group_ids:
                await self._wait(lambda: not self._buffer.full, "room in the replay buffer", step)
            self._buffer.expect(step, group_ids, more)
            self._changed.notify_all()

    async def insert(
        self,
        summaries: Sequence[GroupSummary],
        verdicts: Sequence[tuple[Verdict, ...]],
        groups: Sequence[RolloutGroup],
    ) -> None:
        """Take over graded groups."""
        parts = zip(summaries, verdicts, groups, strict=True)
        own = [GradedGroup(summary, verdict, ray.put(group)) for summary, verdict, group in parts]
        async with self._changed:
            for group in own:
                self._buffer.insert(group)
            self._changed.notify_all()

    async def take(self, step: int) -> tuple[list[GradedGroup], BufferState]:
        """The step's groups in ticket order, once all are in, and the buffer's state then."""
        async with self._changed:
            await self._wait(lambda: self._buffer.ready(step), f"step {step}'s groups", step)
            self._taken[step] = self._buffer.take(step)
            self._changed.notify_all()
        stored = self._experience
        state = BufferState(self._buffer.size, stored.rollouts, stored.nbytes)
        return self._taken[step], state

    async def _wait(self, condition: Any, what: str, step: int) -> None:
        limit = self._config.take_timeout_s
        try:
            await asyncio.wait_for(self._changed.wait_for(condition), limit)
        except TimeoutError:
            raise DeadlineError(
                f"waited {limit:g} s for {what}: {self._buffer.explain(step)}",
                "all groups of a step within replay.take_timeout_s",
                "see the rollout workers' logs; raise replay.take_timeout_s if they are just slow",
            ) from None

    async def draw(self, step: int, version: int, rows: int) -> Draw:
        """Evict, then choose up to `rows` stored rollouts; handles refer to their tokens."""
        self._experience.evict(version)
        drawn = self._experience.draw(step, version, rows)
        self._drawn[step] = drawn
        return dataclasses.replace(drawn, handles=tuple(group.handle for group in drawn.handles))

    async def keep(
        self, step: int, advantages: Sequence[np.ndarray], priorities: Sequence[np.ndarray]
    ) -> None:
        """Store the taken step's rollouts that have a priority."""
        for group, advantage, priority in zip(
            self._taken[step], advantages, priorities, strict=True
        ):
            self._experience.keep(group, advantage, priority)

    async def explain(self, version: int) -> dict[str, Any]:
        """What is stored for reuse, how old it is, what a draw would take and why."""
        return self._experience.describe(version)

    async def release(self, step: int) -> None:
        """Let go of a step's groups: they were trained on."""
        self._taken.pop(step)
        self._drawn.pop(step, None)

    async def record(
        self,
        step: int,
        path: Path,
        advantages: Sequence[np.ndarray],
        fates: Sequence[np.ndarray],
    ) -> None:
        """Write every rollout of a taken step, and those replayed in it, then release them."""
        graded, drawn = self._taken.pop(step), self._drawn.pop(step, None)
        groups = await asyncio.gather(*(group.handle for group in graded))
        recorded = [
            Recorded(group, judged, advantage, fate, np.arange(group.size))
            for group, judged, advantage, fate in zip(
                groups, graded, advantages, fates, strict=True
            )
        ]
        if drawn is not None:
            recorded += await _replayed(drawn, {group.summary.group_id for group in graded})
        await asyncio.to_thread(write_rollouts, path, recorded)

    async def save(self, folder: str) -> None:
        """Write the stored rollouts, tokens included, and the state of the draws."""
        state, graded = self._experience.state()
        groups = await asyncio.gather(*(group.handle for group in graded))
        await asyncio.to_thread(save_experience, Path(folder), state, graded, groups)

    async def load(self, folder: str) -> None:
        """Go on from what `save` wrote."""
        state, restored = await asyncio.to_thread(load_experience, Path(folder))
        own = [dataclasses.replace(judged, handle=ray.put(group)) for judged, group in restored]
        self._experience.restore(state, own)

    async def peak_memory(self) -> int:
        return peak_memory()


async def _replayed(drawn: Draw, fresh: set[int]) -> list[Recorded]:
    """The drawn rollouts as records; those of this very step are among the fresh ones already."""
    graded = drawn.handles
    groups = await asyncio.gather(*(group.handle for group in graded))
    recorded = []
    for index, (judged, group) in enumerate(zip(graded, groups, strict=True)):
        if judged.summary.group_id in fresh:
            continue
        rows = drawn.group == index
        advantages = np.full(group.size, np.nan, np.float32)
        advantages[drawn.sibling[rows]] = drawn.advantage[rows]
        fates = np.full(group.size, Fate.REPLAYED)
        recorded.append(Recorded(group, judged, advantages, fates, drawn.sibling[rows]))
    return recorded


class RemoteBuffer:
    """The buffer actor behind the `Buffer` protocol."""

    def __init__(self, actor: Any, config: ReplayConfig) -> None:
        self._actor = actor
        # The actor's own deadline is the one that explains; this one is for a lost actor.
        self._limit_s = config.take_timeout_s + 60.0

    async def _call(self, method: str, *arguments: Any) -> Any:
        call = getattr(self._actor, method).remote(*arguments)
        return await within(call, self._limit_s, f"the replay buffer's {method}", "see its log")

    async def expect(self, step: int, group_ids: Sequence[int], more: bool) -> None:
        await self._call("expect", step, group_ids, more)

    async def insert(self, groups: GradedGroups) -> None:
        finished = groups.finished
        await self._call("insert", finished.summaries, groups.verdicts, finished.handle)

    async def take(self, step: int) -> tuple[list[GradedGroup], BufferState]:
        groups, state = await self._call("take", step)
        return groups, state

    async def draw(self, step: int, version: int, rows: int) -> Draw:
        return await self._call("draw", step, version, rows)

    async def keep(
        self, step: int, advantages: Sequence[np.ndarray], priorities: Sequence[np.ndarray]
    ) -> None:
        await self._call("keep", step, advantages, priorities)

    async def release(self, step: int) -> None:
        await self._call("release", step)

    async def record(
        self,
        step: int,
        path: Path,
        advantages: Sequence[np.ndarray],
        fates: Sequence[np.ndarray],
    ) -> None:
        await self._call("record", step, path, advantages, fates)

    async def save(self, folder: Path) -> None:
        await self._call("save", str(folder))

    async def load(self, folder: Path) -> None:
        await self._call("load", str(folder))
