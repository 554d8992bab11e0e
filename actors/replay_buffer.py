"""The central buffer as an actor, and as the loop's `Buffer` port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.deadlines import within
from rlvr_platform.config.replay import ReplayConfig
from rlvr_platform.errors import DeadlineError
from rlvr_platform.memory import peak_memory
from rlvr_platform.replay.buffer import BufferState, RolloutBuffer
from rlvr_platform.telemetry.rollouts import write_rollouts
from rlvr_platform.types import (
    GradedGroup,
    GradedGroups,
    GroupSummary,
    RolloutGroup,
    Verdict,
)


@ray.remote
class ReplayBufferActor:
    """Owns every group between its generation and its use.

    The tokens are put into the object store from here: an object dies with the process that
    put it, and a rollout worker may be replaced at any time.
    """

    def __init__(self, config: ReplayConfig) -> None:
        self._config = config
        self._buffer = RolloutBuffer(config.capacity_groups)
        self._changed = asyncio.Condition()
        self._taken: dict[int, list[GradedGroup]] = {}

    async def expect(self, step: int, group_ids: Sequence[int]) -> None:
        """Reserve places; waits while the buffer is full."""
        async with self._changed:
            await self._wait(lambda: not self._buffer.full, "room in the replay buffer", step)
            self._buffer.expect(step, group_ids)

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

    async def take(self, step: int, version: int) -> tuple[list[GradedGroup], BufferState]:
        """The step's groups in ticket order, once all are in, and the buffer's state then."""
        async with self._changed:
            await self._wait(lambda: self._buffer.ready(step), f"step {step}'s groups", step)
            self._taken[step] = self._buffer.take(step, version)
            self._changed.notify_all()
            return self._taken[step], self._buffer.state()

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

    async def release(self, step: int) -> None:
        """Let go of a step's groups: they were trained on."""
        self._taken.pop(step)

    async def record(
        self,
        step: int,
        path: Path,
        advantages: Sequence[np.ndarray],
        fates: Sequence[np.ndarray],
    ) -> None:
        """Write every rollout of a taken step with its verdict and fate, then release them."""
        graded = self._taken.pop(step)
        groups = await asyncio.gather(*(group.handle for group in graded))
        await asyncio.to_thread(write_rollouts, path, groups, graded, advantages, fates)

    async def peak_memory(self) -> int:
        return peak_memory()


class RemoteBuffer:
    """The buffer actor behind the `Buffer` protocol."""

    def __init__(self, actor: Any, config: ReplayConfig) -> None:
        self._actor = actor
        # The actor's own deadline is the one that explains; this one is for a lost actor.
        self._limit_s = config.take_timeout_s + 60.0

    async def _call(self, method: str, *arguments: Any) -> Any:
        call = getattr(self._actor, method).remote(*arguments)
        return await within(call, self._limit_s, f"the replay buffer's {method}", "see its log")

    async def expect(self, step: int, group_ids: Sequence[int]) -> None:
        await self._call("expect", step, group_ids)

    async def insert(self, groups: GradedGroups) -> None:
        finished = groups.finished
        await self._call("insert", finished.summaries, groups.verdicts, finished.handle)

    async def take(self, step: int, version: int) -> tuple[list[GradedGroup], BufferState]:
        groups, state = await self._call("take", step, version)
        return groups, state

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
