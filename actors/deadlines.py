"""Every wait on another process has a deadline, says whom it waits for, and is on record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rlvr_platform.errors import DeadlineError

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """Somebody waits for `who`."""

    who: str
    since: float
    """On the monotonic clock."""
    limit_s: float


class Waits:
    """The waits of this process that are not over, for the watchdog."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: set[Wait] = set()
        self._progress = clock()

    @contextmanager
    def waiting(self, who: str, limit_s: float) -> Iterator[None]:
        """One wait; its end is progress."""
        wait = Wait(who, self._clock(), limit_s)
        if not self._open:
            self._progress = wait.since
        self._open.add(wait)
        try:
            yield
        finally:
            self._open.remove(wait)
            self._progress = self._clock()

    @property
    def idle_s(self) -> float:
        """Seconds since a wait last ended, while there are any; else 0."""
        return self._clock() - self._progress if self._open else 0.0

    def listed(self) -> list[dict[str, str | float]]:
        """Who is waited for, for how long already and at most; the longest first."""
        now = self._clock()
        return [
            {
                "who": wait.who,
                "age_s": round(now - wait.since, 1),
                "limit_s": wait.limit_s,
            }
            for wait in sorted(self._open, key=lambda wait: wait.since)
        ]


WAITS = Waits()
"""Those of this process."""


async def within(work: Awaitable[T], limit_s: float, who: str, fix: str) -> T:
    """Await `work`; raises DeadlineError naming `who` after `limit_s` seconds."""
    try:
        with WAITS.waiting(who, limit_s):
            async with asyncio.timeout(limit_s) as deadline:
                return await work
    except TimeoutError:
        if not deadline.expired():  # it is the answer
            raise
        raise DeadlineError(
            f"no answer from {who} within {limit_s:g} s", "an answer in time", fix
        ) from None


async def all_ended(works: Sequence[Awaitable[T]]) -> list[T]:
    """What all of them return; the first error only once none of them goes on."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]
