"""The rollout buffer as a plain object: graded groups wait here for the step they belong to.

A group goes through three states: expected (its ticket was reserved), held (inserted), taken.
Groups leave in ticket order, so that the order in which they finished never matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlvr_platform.types import GradedGroup


@dataclass(frozen=True, slots=True)
class BufferState:
    """What the central buffer holds, for metrics."""

    waiting: int
    """Groups that wait for their step."""
    stored: int
    """Rollouts kept for reuse."""
    stored_bytes: int
    """Memory of the groups that these belong to."""


class RolloutBuffer:
    """First in, first out by step; bounded; knows what it waits for."""

    def __init__(self, capacity_groups: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity_groups
        self._clock = clock
        self._expected: dict[int, dict[int, float]] = {}
        self._growing: set[int] = set()
        self._held: dict[int, dict[int, GradedGroup]] = {}

    @property
    def size(self) -> int:
        """Groups held."""
        return sum(len(groups) for groups in self._held.values())

    @property
    def full(self) -> bool:
        """True when reserved and held groups fill the capacity: generation must wait."""
        reserved = sum(len(groups) for groups in self._expected.values())
        return self.size + reserved >= self._capacity

    def expect(self, step: int, group_ids: Sequence[int], more: bool = False) -> None:
        """Reserve places for groups of a step; with `more`, the step may still grow."""
        now = self._clock()
        self._expected.setdefault(step, {}).update(dict.fromkeys(group_ids, now))
        (self._growing.add if more else self._growing.discard)(step)

    def insert(self, group: GradedGroup) -> None:
        """Hold a group; raises ValueError when nobody expects it (or it is here already)."""
        summary = group.summary
        if self._expected.get(summary.step, {}).pop(summary.group_id, None) is None:
            raise ValueError(f"group {summary.group_id} of step {summary.step} was not expected")
        self._held.setdefault(summary.step, {})[summary.group_id] = group

    def ready(self, step: int) -> bool:
        """True when the step was reserved, does not grow, and all its groups are held."""
        return self._expected.get(step) == {} and step not in self._growing

    def take(self, step: int) -> list[GradedGroup]:
        """Hand out a ready step's groups in ticket order.

        Raises ValueError when the step is not ready.
        """
        if not self.ready(step):
            raise ValueError(f"step {step} is not ready: {self.explain(step)}")
        del self._expected[step]
        return [group for _, group in sorted(self._held.pop(step, {}).items())]

    def explain(self, step: int) -> str:
        """What `take` waits for, in words."""
        if step not in self._expected:
            return f"no group of step {step} was reserved yet"
        missing = self._expected[step]
        if not missing and step in self._growing:
            return "all groups are in, but dynamic sampling has not decided whether more come"
        held = len(self._held.get(step, {}))
        now = self._clock()
        oldest = sorted(missing.items(), key=lambda entry: entry[1])[:5]
        listed = ", ".join(f"{group} ({now - since:.0f} s)" for group, since in oldest)
        return f"{held} groups are in, {len(missing)} are missing; longest: {listed}"
