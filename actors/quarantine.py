"""Prompts that take engines down: who is to blame when a worker is lost over several of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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

    def blame(self, failed: Sequence[Ticket], reason: str, alone: bool) -> list[Quarantined]:
        """Count a failure of these tickets; `alone`: each is known to have failed by itself."""
        for ticket in failed:
            self._failed[ticket.group_id] += 1
        return [
            Quarantined(ticket, reason)
            for ticket in failed
            if alone and self._failed[ticket.group_id] >= STRIKES
        ]
