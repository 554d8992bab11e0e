"""The verifier pool as an actor, and as the loop's `Verdicts` port."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import ray

from actors.deadlines import within
from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.memory import children_peak_memory, peak_memory
from rlvr_platform.types import FinishedGroup, GradedGroup, Prompt, RolloutGroup, Verdict
from rlvr_platform.verifiers.gold import BadGold, check_gold
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

QUEUE_ALLOWANCE_S = 60.0
"""What a group may wait behind other groups, beyond the deadlines of its own items."""


@ray.remote
class VerifierPoolActor:
    """Owns the killable verifier processes of one node."""

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config

    async def start(self) -> None:
        self._pool = await asyncio.to_thread(VerifierPool, self._config)

    async def grade(self, group: RolloutGroup) -> tuple[Verdict, ...]:
        """One verdict per sibling, in order."""
        prompt = group.ticket.prompt
        items = [GradeItem(text, prompt.gold, prompt.options) for text in group.texts]
        verdicts = await asyncio.wrap_future(self._pool.submit(items))
        return tuple(verdicts)

    async def check_gold(self, prompts: Sequence[Prompt]) -> list[BadGold]:
        """The prompts whose gold answer does not verify against itself."""
        return await asyncio.to_thread(check_gold, prompts, self._pool)

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

    async def grade(self, group: FinishedGroup) -> GradedGroup:
        """Raises DeadlineError when the pool as a whole does not answer."""
        limit = self._pool.deadline_s * group.summary.size + QUEUE_ALLOWANCE_S
        verdicts = await within(
            self._actor.grade.remote(group.handle),
            limit,
            f"the verifier pool grading group {group.summary.group_id}",
            "raise verifier.pool.workers",
        )
        return GradedGroup(group, verdicts)
