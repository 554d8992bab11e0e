"""The records of replay: what is stored of a rollout, what leaves, what is drawn.

Tokens stay with their group, behind an opaque handle.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Experience:
    """Stored rollouts as columns of shape [N], in the order of their insertion."""

    group_id: np.ndarray
    """int64 [N], the group that holds the tokens."""
    sibling: np.ndarray
    """int32 [N], sibling inside the group."""
    advantage: np.ndarray
    """float32 [N], what the loss uses; frozen at birth."""
    priority: np.ndarray
    """float64 [N], what is drawn by; frozen at birth."""
    birth: np.ndarray
    """int32 [N], oldest weight version that sampled one of the rollout's tokens."""
    length: np.ndarray
    """int32 [N], prompt plus completion tokens."""
    trained_tokens: np.ndarray
    """int32 [N], tokens that carry gradient."""

    @classmethod
    def empty(cls, rows: int) -> Experience:
        """Room for `rows` rollouts."""
        return cls(**{name: np.zeros(rows, dtype) for name, dtype in DTYPES.items()})

    def take(self, index: np.ndarray | slice) -> Experience:
        """The rows at `index`."""
        return Experience(**{name: getattr(self, name)[index] for name in DTYPES})

    def write(self, start: int, other: Experience) -> None:
        """Copy the rows of `other` over the rows from `start` on."""
        for name in DTYPES:
            column = getattr(other, name)
            getattr(self, name)[start : start + len(column)] = column

    def __len__(self) -> int:
        return len(self.group_id)

    def check(self) -> None:
        """Raises ValueError unless the rows can be stored as those of one group."""
        if not len(self) or any(np.shape(getattr(self, name)) != (len(self),) for name in DTYPES):
            raise ValueError("a group's columns must all have one entry per rollout, at least one")
        if not (np.isfinite(self.advantage).all() and np.isfinite(self.priority).all()):
            raise ValueError(
                "an advantage or priority is NaN or infinite: leave out what has no verdict"
            )
        if self.priority.min() < 0:
            raise ValueError("a priority is negative")
        if not self.advantage.any():
            raise ValueError(
                "all advantages are zero: such a group is dropped before the insertion"
            )


DTYPES: dict[str, type] = {
    **dict.fromkeys((f.name for f in fields(Experience)), np.int32),
    "group_id": np.int64,
    "advantage": np.float32,
    "priority": np.float64,
}


@dataclass(frozen=True, slots=True)
class Evicted:
    """Rollouts that left in one eviction, by reason."""

    age: int = 0
    """Older than max_age."""
    capacity: int = 0
    """The oldest ones above capacity_rollouts."""
    memory: int = 0
    """The oldest ones above max_gib."""


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Rollouts to train on again; columns have shape [R], in the order drawn."""

    handles: tuple[Any, ...]
    """One handle per group that has rows, ascending by group id."""
    group_ids: np.ndarray
    """int64 [handles], their groups."""
    group: np.ndarray
    """int32 [R], index into `handles`."""
    sibling: np.ndarray
    """int32 [R], sibling inside the group."""
    advantage: np.ndarray
    """float32 [R], as at birth."""
    length: np.ndarray
    """int32 [R], prompt plus completion tokens."""
    trained_tokens: np.ndarray
    """int32 [R], tokens that carry gradient."""
    ages: np.ndarray
    """int64 [R], weight versions between birth and this draw."""
    probability: np.ndarray
    """float64 [R], P(i): the chance of the row to be the first one drawn. For reports."""

    @property
    def rows(self) -> int:
        return len(self.group)
