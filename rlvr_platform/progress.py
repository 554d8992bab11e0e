"""Small instruments of the training loop: who may run ahead, and where the time goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class StepClock:
    """The last finished training step; others wait for it."""

    def __init__(self, step: int) -> None:
        self.step = step
        self._moved = asyncio.Condition()

    async def advance(self, step: int) -> None:
        """Say that `step` is finished."""
        async with self._moved:
            self.step = step
            self._moved.notify_all()

    async def reach(self, step: int) -> None:
        """Wait until `step` is finished."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.step >= step)


class BusyClock:
    """Seconds during which at least one of several overlapping activities ran."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._active = 0
        self._since = 0.0
        self._seconds = 0.0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """One activity."""
        if self._active == 0:
            self._since = self._clock()
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1
            if self._active == 0:
                self._seconds += self._clock() - self._since

    def read(self) -> float:
        """Busy seconds since the last reading."""
        now = self._clock()
        if self._active:
            self._seconds += now - self._since
            self._since = now
        seconds, self._seconds = self._seconds, 0.0
        return seconds


class StepTimer:
    """Wall time of one step by phase; phases named `aside` are not part of the step."""

    ASIDE = frozenset({"evaluate", "checkpoint"})

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to `name`."""
        began = self._clock()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self._clock() - began

    def step_seconds(self) -> float:
        """Time since the start, less what was spent aside."""
        aside = sum(self.seconds.get(name, 0.0) for name in self.ASIDE)
        return self._clock() - self._began - aside
