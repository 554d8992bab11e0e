"""The verifier pool as an actor, and as the loop's `Verdicts` port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any

import ray

from actors.deadlines import within
from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.memory import children_peak_memory, peak_memory
from rlvr_platform.types import FinishedGroups, GradedGroups, RolloutGroup, Verdict
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

QUEUE_ALLOWANCE_S = 60.0
"""Beyond the deadlines of everything that is queued, in which all of it may time out."""


@ray.remote
class VerifierPoolActor:
    """Owns the killable verifier processes of one node."""

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config

    async def start(self) -> None:
        self._pool = await asyncio.to_thread(VerifierPool, self._config)

    async def grade(self, groups: Sequence[RolloutGroup]) -> tuple[tuple[Verdict, ...], ...]:
        """Per group one verdict per sibling, in order."""
        items = [
            GradeItem(text, group.ticket.prompt.gold, group.ticket.prompt.options)
            for group in groups
            for text in group.texts
        ]
        verdicts = await asyncio.wrap_future(self._pool.submit(items))
        left = iter(verdicts)
        return tuple(tuple(islice(left, group.size)) for group in groups)

    async def peak_memory(self) -> int:
        return peak_memory() + children_peak_memory()

    async def stop(self) -> None:
        """End the verifier processes."""
        await asyncio.to_thread(self._pool.close)


class RemoteVerdicts:
    """The pool actor behind the `Verdicts` protocol."""

    def __init__(self, actor: Any, config: VerifierConfig) -> None:
        self._actor = actor
        self._pool = config.pool
        self._queued = 0

    async def grade(self, groups: FinishedGroups) -> GradedGroups:
        """Raises DeadlineError when the pool as a whole does not answer."""
        rollouts = sum(summary.size for summary in groups.summaries)
        named = ", ".join(str(summary.group_id) for summary in groups.summaries)
        self._queued += rollouts
        try:
            verdicts = await within(
                self._actor.grade.remote(groups.handle),
                self._pool.deadline_s * self._queued + QUEUE_ALLOWANCE_S,
                f"the verifier pool grading group {named}",
                "raise verifier.pool.workers",
            )
        finally:
            self._queued -= rollouts
        return GradedGroups(groups, verdicts)
