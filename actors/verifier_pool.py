"""The verifier pool as an actor, and as the loop's `Verdicts` port.

The pool inside survives the death of any of its processes. The actor itself is replaced when it
dies, and what it had not answered is handed in again, so no rollout loses its verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice

import ray

from actors.deadlines import within
from actors.processes import Member
from actors.supervision import Actors, Role, Supervision, is_loss
from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import VerifierError
from rlvr_platform.memory import children_peak_memory, peak_memory
from rlvr_platform.types import FinishedGroups, GradedGroups, RolloutGroup, Verdict
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

QUEUE_ALLOWANCE_S = 60.0
"""Beyond the deadlines of everything that is queued, in which all of it may time out."""
GRADE_ATTEMPTS = 3
"""How often the actor may die over the same groups: after that, they are what kills it."""
START_DEADLINE_S = 180.0
"""For a process that loads the verifier."""


@ray.remote
class VerifierPoolActor(Member):
    """Owns the killable verifier processes of one node."""

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config

    async def start(self) -> None:
        """Load the verifier. Raises ConfigError."""
        self._pool = await asyncio.to_thread(VerifierPool, self._config)

    async def grade(self, groups: Sequence[RolloutGroup]) -> tuple[tuple[Verdict, ...], ...]:
        """Per group one verdict per sibling, in order."""
        items = [
            GradeItem(text, group.ticket.prompt.gold, group.ticket.prompt.options)
            for group in groups
            for text in group.texts
        ]
        # In a thread, since handing in waits while the queue is full.
        verdicts = await asyncio.wrap_future(await asyncio.to_thread(self._pool.submit, items))
        left = iter(verdicts)
        return tuple(tuple(islice(left, group.size)) for group in groups)

    async def peak_memory(self) -> dict[str, int]:
        return {"verifier_pool": peak_memory() + children_peak_memory()}

    async def stop(self) -> None:
        """End the verifier processes."""
        self._pool.close()


class RemoteVerdicts:
    """The pool actor behind the `Verdicts` protocol."""

    def __init__(
        self, create: Callable[[], Actors], config: VerifierConfig, supervision: Supervision
    ) -> None:
        self.role = Role("verifier_pool", create, self._load, supervision)
        self._pool = config.pool
        self._queued = 0

    async def start(self) -> None:
        """Load the verifier. Raises ConfigError."""
        await self._load(self.role.actors)

    async def grade(self, groups: FinishedGroups) -> GradedGroups:
        """A verdict for every sibling, also when the actor dies meanwhile.

        Raises VerifierError when it dies over these groups again and again.
        """
        rollouts = sum(summary.size for summary in groups.summaries)
        self._queued += rollouts
        try:
            return GradedGroups(groups, await self._insist(groups))
        finally:
            self._queued -= rollouts

    async def _insist(self, groups: FinishedGroups) -> tuple[tuple[Verdict, ...], ...]:
        named = ", ".join(str(summary.group_id) for summary in groups.summaries)
        for _ in range(GRADE_ATTEMPTS):
            actors, generation = await self.role.present()
            try:
                return await within(
                    actors[0].grade.remote(groups.handle),
                    self._pool.deadline_s * self._queued + QUEUE_ALLOWANCE_S,
                    f"{self.role.title} grading group {named}",
                    "raise verifier.pool.workers",
                )
            except Exception as error:
                if not is_loss(error):
                    raise
                await self.role.replace(generation, error)
        raise VerifierError(
            f"the verifier pool's process was lost {GRADE_ATTEMPTS} times while grading group "
            f"{named}",
            "a process that lives",
            "see Ray's logs for how it died; if the node ran out of memory, lower "
            "verifier.pool.queue_mib or verifier.pool.workers",
        )

    async def _load(self, actors: Actors) -> None:
        call = actors[0].start.remote()
        await within(call, START_DEADLINE_S, "the verifier pool's start", "see its log")
