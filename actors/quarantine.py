"""Prompts that take engines down: who is to blame when a worker is lost over several of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from rlvr_platform.types import Quarantined, Ticket

STRIKES = 2
"""A worker may die or time out for reasons of its own, hence a second chance."""


class Strikes:
    """How often each group failed; one that fails twice, and alone the last time, is given up.

    Groups that failed twice in company are tried again one by one, after all others.
    """

    def __init__(self) -> None:
        self._failed: Counter[int] = Counter()

    def next_batch(self, waiting: Sequence[Ticket]) -> list[Ticket]:
        """The tickets to try together."""
        trusted = [ticket for ticket in waiting if self._failed[ticket.group_id] < STRIKES]
        return trusted or list(waiting[:1])

    def on_trial(self, batch: Sequence[Ticket]) -> bool:
        """True when another failure condemns it, so that nothing else may share its worker."""
        return len(batch) == 1 and self._failed[batch[0].group_id] >= STRIKES - 1

    def blame(self, failed: Sequence[Ticket], reason: str, alone: bool) -> list[Quarantined]:
        """Count a failure of these tickets; `alone`: each is known to have failed by itself."""
        for ticket in failed:
            self._failed[ticket.group_id] += 1
        given_up = [
            Quarantined(ticket, reason)
            for ticket in failed
            if alone and self._failed[ticket.group_id] >= STRIKES
        ]
        for entry in given_up:
            self.forget(entry.group_ids)  # another prompt gets the number
        return given_up

    def forget(self, group_ids: Iterable[int]) -> None:
        """These groups are settled."""
        for group_id in group_ids:
            self._failed.pop(group_id, None)


class Turns:
    """Who uses a worker: any number of batches together, or one that is on trial alone."""

    def __init__(self) -> None:
        self._gate = asyncio.Lock()
        self._together = 0
        self._nobody = asyncio.Event()
        self._nobody.set()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Use the worker beside others; waits while somebody is alone or waits to be."""
        async with self._gate:
            self._together += 1
            self._nobody.clear()
        try:
            yield
        finally:
            self._together -= 1
            if self._together == 0:
                self._nobody.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Use the worker once all others are done."""
        async with self._gate:
            await self._nobody.wait()
            yield
