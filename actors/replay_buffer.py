"""The central buffer as an actor, and as the loop's `Buffer` port.

The actor may die at any time. Its port keeps what brings a new one to the same state: a copy of
what is stored for reuse as of the last finished step, and the requests since.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.deadlines import within
from actors.groups import GroupHandle, fetch_groups, graded_groups
from actors.processes import Member
from actors.supervision import Actors, Role, Supervision
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.replay import PrioritisedReuse
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
)


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """What is stored for reuse, without the groups themselves."""

    step: int
    """The last step whose rollouts are in it."""
    arrays: Mapping[str, np.ndarray]
    """See `ExperienceReplay.state`."""

    @property
    def group_ids(self) -> list[int]:
        return self.arrays["groups.group_id"].tolist()


def _experience(config: ExperimentConfig) -> ExperienceReplay:
    """An empty store. Without reuse it stays empty: the loop neither keeps nor draws."""
    reuse = config.replay.reuse
    stored = reuse if isinstance(reuse, PrioritisedReuse) else PrioritisedReuse()
    return ExperienceReplay(stored, config.seed)


@ray.remote
class ReplayBufferActor(Member):
    """Holds every group between its generation and its last use."""

    def __init__(self, config: ExperimentConfig) -> None:
        self._config = config.replay
        self._buffer = RolloutBuffer(config.replay.capacity_groups)
        self._experience = _experience(config)
        self._kept_step = 0
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

    async def expect_again(self, step: int, group_ids: Sequence[int], more: bool) -> None:
        """Reserve places for which there was room before."""
        self._buffer.expect(step, group_ids, more)

    async def insert(self, step: int, groups: Sequence[GradedGroup]) -> None:
        """Take over graded groups of one step."""
        async with self._changed:
            for group in groups:
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
        self._kept_step = step

    async def explain(self, version: int) -> dict[str, Any]:
        """What is stored for reuse, how old it is, what a draw would take and why."""
        return self._experience.describe(version)

    async def release(self, step: int) -> Stored:
        """Let go of a step's groups: they were trained on. Returns what is stored now."""
        self._taken.pop(step)
        self._drawn.pop(step, None)
        return self._stored()

    async def record(
        self,
        step: int,
        path: Path,
        advantages: Sequence[np.ndarray],
        fates: Sequence[np.ndarray],
    ) -> Stored:
        """Write every rollout of a taken step, and those replayed in it, then release them."""
        graded, drawn = self._taken.pop(step), self._drawn.pop(step, None)
        stored = self._stored()
        groups = await fetch_groups([group.handle for group in graded])
        recorded = [
            Recorded(group, judged, advantage, fate, np.arange(group.size))
            for group, judged, advantage, fate in zip(
                groups, graded, advantages, fates, strict=True
            )
        ]
        if drawn is not None:
            recorded += await _replayed(drawn, {group.summary.group_id for group in graded})
        await asyncio.to_thread(write_rollouts, path, recorded)
        return stored

    def _stored(self) -> Stored:
        arrays, _ = self._experience.state()
        return Stored(self._kept_step, arrays)

    async def save(self, folder: str) -> None:
        """Write the stored rollouts, tokens included, and the state of the draws."""
        state, graded = self._experience.state()
        groups = await fetch_groups([group.handle for group in graded])
        await asyncio.to_thread(save_experience, Path(folder), state, graded, groups)

    async def restore(self, stored: Stored, groups: Sequence[GradedGroup]) -> None:
        """Start from what was stored; `groups` are those of `stored.group_ids`, in that order."""
        self._experience.restore(stored.arrays, groups)
        self._kept_step = stored.step

    async def peak_memory(self) -> dict[str, int]:
        return {"replay_buffer": peak_memory()}


async def _replayed(drawn: Draw, fresh: set[int]) -> list[Recorded]:
    """The drawn rollouts as records; those of this very step are among the fresh ones already."""
    graded = drawn.handles
    groups = await fetch_groups([group.handle for group in graded])
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


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request that changed the actor's state."""

    step: int
    method: str
    arguments: tuple[Any, ...]

    @property
    def place(self) -> tuple[int, int]:
        """Where it is repeated. Answers do not come in the order in which they were given: a
        `take` that waits is answered at the same time as the last `insert`."""
        order = ("expect_again", "insert", "take")
        return self.step, order.index(self.method) if self.method in order else len(order)


class RemoteBuffer:
    """The buffer actor behind the `Buffer` protocol."""

    def __init__(
        self, create: Callable[[], Actors], config: ExperimentConfig, supervision: Supervision
    ) -> None:
        self.role = Role("replay_buffer", create, self._revive, supervision)
        self._call_s = supervision.config.call_timeout_s
        # The actor's own deadline is the one that explains; this one is for a lost actor.
        self._wait_s = config.replay.take_timeout_s + 60.0
        self._requests: list[Request] = []
        self._stored = Stored(0, _experience(config).state()[0])
        self._groups: dict[int, GradedGroup] = {}
        """Those of `_stored`."""

    async def expect(self, step: int, group_ids: Sequence[int], more: bool) -> None:
        arguments = (step, list(group_ids), more)
        await self._call(self._wait_s, "expect", *arguments)
        self._requests.append(Request(step, "expect_again", arguments))

    async def insert(self, groups: GradedGroups) -> None:
        step = groups.finished.summaries[0].step
        await self._change(self._call_s, step, "insert", graded_groups(groups))

    async def take(self, step: int) -> tuple[list[GradedGroup], BufferState]:
        groups, state = await self._change(self._wait_s, step, "take")
        return groups, state

    async def draw(self, step: int, version: int, rows: int) -> Draw:
        return await self._change(self._call_s, step, "draw", version, rows)

    async def keep(
        self, step: int, advantages: Sequence[np.ndarray], priorities: Sequence[np.ndarray]
    ) -> None:
        await self._change(self._call_s, step, "keep", advantages, priorities)

    async def release(self, step: int) -> None:
        self._remember(step, await self._call(self._call_s, "release", step))

    async def record(
        self,
        step: int,
        path: Path,
        advantages: Sequence[np.ndarray],
        fates: Sequence[np.ndarray],
    ) -> None:
        stored = await self._call(self._wait_s, "record", step, path, advantages, fates)
        self._remember(step, stored)

    async def save(self, folder: Path) -> None:
        await self._call(self._wait_s, "save", str(folder))

    async def load(self, folder: Path) -> None:
        """Go on from what `save` wrote. The tokens are put from here, see actors/groups.py."""
        arrays, restored = await asyncio.to_thread(load_experience, folder)
        own = [
            dataclasses.replace(judged, handle=GroupHandle(ray.put((group,)), 0))
            for judged, group in restored
        ]
        self._stored = Stored(0, arrays)
        self._groups = dict(zip(self._stored.group_ids, own, strict=True))
        await self._call(self._wait_s, "restore", self._stored, own)

    async def explain(self, version: int) -> dict[str, Any]:
        """What is stored for reuse, how old it is, what a draw would take and why."""
        return await self._call(self._call_s, "explain", version)

    async def _call(self, limit_s: float, method: str, *arguments: Any) -> Any:
        def ask(actors: Actors) -> Any:
            return getattr(actors[0], method).remote(*arguments)

        return await self.role.insist(ask, method, limit_s, "see its log")

    async def _change(self, limit_s: float, step: int, method: str, *arguments: Any) -> Any:
        answer = await self._call(limit_s, method, step, *arguments)
        self._requests.append(Request(step, method, (step, *arguments)))
        return answer

    def _remember(self, step: int, stored: Stored) -> None:
        """The step is finished: what it left is in `stored`, its requests can be forgotten.

        Unless a later step was kept already, before whose draw `stored` cannot go back.
        """
        if stored.step > step:
            return
        inserts = (r.arguments[1] for r in self._requests if r.method == "insert")
        known = self._groups | {g.summary.group_id: g for groups in inserts for g in groups}
        self._requests = [r for r in self._requests if r.step > step]
        self._groups = {group_id: known[group_id] for group_id in stored.group_ids}
        self._stored = stored

    async def _revive(self, actors: Actors) -> None:
        """Restore what was stored, then repeat the requests of the steps under way."""
        (actor,) = actors
        await self._repeat(actor, "restore", self._stored, list(self._groups.values()))
        for request in sorted(self._requests, key=lambda request: request.place):
            if request.method != "keep" or request.step > self._stored.step:
                await self._repeat(actor, request.method, *request.arguments)

    async def _repeat(self, actor: Any, method: str, *arguments: Any) -> None:
        call = getattr(actor, method).remote(*arguments)
        await within(call, self._call_s, f"the new replay buffer's {method}", "see its log")
