"""The rollout buffer as a plain object: graded groups wait here for the step they belong to.

A group goes through three states: expected (its ticket was reserved), held (inserted), taken.
Groups leave in ticket order, so that the order in which they finished never matters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.types import GradedGroup


@dataclass(frozen=True, slots=True)
class BufferState:
    """What the buffer holds, for metrics."""

    size: int
    """Groups held."""
    age_mean: float
    """Mean age of the rollouts last taken, in weight versions."""
    age_max: float


class RolloutBuffer:
    """First in, first out by step; bounded; knows what it waits for."""

    def __init__(self, capacity_groups: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity_groups
        self._clock = clock
        self._expected: dict[int, dict[int, float]] = {}
        self._held: dict[int, dict[int, GradedGroup]] = {}
        self._ages = np.zeros(1)

    @property
    def size(self) -> int:
        """Groups held."""
        return sum(len(groups) for groups in self._held.values())

    @property
    def full(self) -> bool:
        """True when reserved and held groups fill the capacity: generation must wait."""
        reserved = sum(len(groups) for groups in self._expected.values())
        return self.size + reserved >= self._capacity

    def expect(self, step: int, group_ids: Sequence[int]) -> None:
        """Reserve places for the groups of a step."""
        now = self._clock()
        self._expected.setdefault(step, {}).update(dict.fromkeys(group_ids, now))

    def insert(self, group: GradedGroup) -> None:
        """Hold a group; raises ValueError when nobody expects it (or it is here already)."""
        summary = group.summary
        if self._expected.get(summary.step, {}).pop(summary.group_id, None) is None:
            raise ValueError(f"group {summary.group_id} of step {summary.step} was not expected")
        self._held.setdefault(summary.step, {})[summary.group_id] = group

    def ready(self, step: int) -> bool:
        """True when the step was reserved and all its groups are held."""
        return step in self._expected and not self._expected[step]

    def take(self, step: int, version: int) -> list[GradedGroup]:
        """Hand out a ready step's groups in ticket order and record their ages.

        Raises ValueError when the step is not ready.
        """
        if not self.ready(step):
            raise ValueError(f"step {step} is not ready: {self.explain(step)}")
        del self._expected[step]
        groups = [group for _, group in sorted(self._held.pop(step, {}).items())]
        births = [group.summary.first_version for group in groups]
        self._ages = version - np.concatenate(births) if births else np.zeros(1)
        return groups

    def state(self) -> BufferState:
        return BufferState(self.size, float(self._ages.mean()), float(self._ages.max()))

    def explain(self, step: int) -> str:
        """What `take` waits for, in words."""
        if step not in self._expected:
            return f"no group of step {step} was reserved yet"
        missing = self._expected[step]
        held = len(self._held.get(step, {}))
        now = self._clock()
        oldest = sorted(missing.items(), key=lambda entry: entry[1])[:5]
        listed = ", ".join(f"{group} ({now - since:.0f} s)" for group, since in oldest)
        return f"{held} groups are in, {len(missing)} are missing; longest: {listed}"
