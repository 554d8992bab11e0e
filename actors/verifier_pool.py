"""The verifier pool as an actor, and as the loop's `Verdicts` port.

The pool inside survives the death of any of its processes. The actor itself is restarted by Ray
when it dies, and what it had not answered is handed in again, so no rollout loses its verdict.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any, Protocol

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError

from actors.deadlines import within
from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import DeadlineError, VerifierError
from rlvr_platform.memory import children_peak_memory, peak_memory
from rlvr_platform.types import FinishedGroups, GradedGroups, RolloutGroup, Verdict
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

QUEUE_ALLOWANCE_S = 60.0
"""Beyond the deadlines of everything that is queued, in which all of it may time out."""
GRADE_ATTEMPTS = 3
"""How often the actor may die over the same groups: after that, they are what kills it."""
RESTART_DEADLINE_S = 180.0
"""For a new process that loads the verifier."""
_RETRY_S = 0.2
_LOST = (RayActorError, OutOfMemoryError)


@ray.remote(max_restarts=-1)
class VerifierPoolActor:
    """Owns the killable verifier processes of one node.

    `start` may be called again, and must be after a restart.
    """

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config
        self._starting = asyncio.Lock()
        self._pool: VerifierPool | None = None

    async def start(self) -> int:
        """Load the verifier, once; returns this process's id. Raises ConfigError."""
        async with self._starting:
            if self._pool is None:
                self._pool = await asyncio.to_thread(VerifierPool, self._config)
        return os.getpid()

    async def grade(self, groups: Sequence[RolloutGroup]) -> tuple[tuple[Verdict, ...], ...]:
        """Per group one verdict per sibling, in order."""
        await self.start()
        assert self._pool is not None
        items = [
            GradeItem(text, group.ticket.prompt.gold, group.ticket.prompt.options)
            for group in groups
            for text in group.texts
        ]
        # In a thread, since handing in waits while the queue is full.
        verdicts = await asyncio.wrap_future(await asyncio.to_thread(self._pool.submit, items))
        left = iter(verdicts)
        return tuple(tuple(islice(left, group.size)) for group in groups)

    async def peak_memory(self) -> int:
        return peak_memory() + children_peak_memory()

    async def stop(self) -> None:
        """End the verifier processes."""
        if self._pool is not None:
            self._pool.close()


class Events(Protocol):
    """Where a restart is written down, such as `Recorder.event`."""

    def __call__(self, kind: str, **fields: Any) -> None: ...


def print_event(kind: str, **fields: Any) -> None:
    """One line on standard error."""
    print(kind, *(f"{name}={value}" for name, value in fields.items()), file=sys.stderr)


class RemoteVerdicts:
    """The pool actor behind the `Verdicts` protocol."""

    def __init__(self, actor: Any, config: VerifierConfig, events: Events = print_event) -> None:
        self._actor = actor
        self._pool = config.pool
        self._events = events
        self._queued = 0
        self._restarting = asyncio.Lock()
        self._process = 0
        """Process id of the actor as last seen after a loss."""

    async def grade(self, groups: FinishedGroups) -> GradedGroups:
        """A verdict for every sibling, also when the actor dies meanwhile.

        Raises DeadlineError when the pool as a whole does not answer, VerifierError when it dies
        over these groups again and again.
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
            try:
                return await within(
                    self._actor.grade.remote(groups.handle),
                    self._pool.deadline_s * self._queued + QUEUE_ALLOWANCE_S,
                    f"the verifier pool grading group {named}",
                    "raise verifier.pool.workers",
                )
            except _LOST as error:
                await self._await_restart(error)
        raise VerifierError(
            f"the verifier pool's process died {GRADE_ATTEMPTS} times while grading group {named}",
            "a process that lives",
            "see Ray's logs for how it died; if the node ran out of memory, lower "
            "verifier.pool.queue_mib or verifier.pool.workers",
        )

    async def _await_restart(self, loss: RayError) -> None:
        """Return once the actor answers again. One event a restart, however many groups waited."""
        async with self._restarting:
            process = await self._process_id(loss)
            if process != self._process:
                self._process = process
                self._events("verifier_pool_restarted", process=process, reason=str(loss))

    async def _process_id(self, loss: RayError) -> int:
        end = time.monotonic() + RESTART_DEADLINE_S
        while (left := end - time.monotonic()) > 0:
            try:
                return await within(self._actor.start.remote(), left, "the verifier pool", "")
            except _LOST as error:
                loss = error
                await asyncio.sleep(_RETRY_S)
        raise DeadlineError(
            f"the verifier pool did not come back within {RESTART_DEADLINE_S:g} s: {loss}",
            "Ray restarting it",
            "see Ray's logs; `--resume` goes on from the last checkpoint",
        )
