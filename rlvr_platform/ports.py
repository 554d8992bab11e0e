"""The five protocols by which the training loop knows the world.

Ray actors satisfy them through `actors/`; plain objects satisfy them in tests.
Every method that waits has a deadline inside and raises `DeadlineError` past it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rlvr_platform.types import (
    FinishedGroup,
    GradedGroup,
    LearnerReport,
    Prompt,
    Ticket,
    TrainBatch,
    WeightSnapshot,
)


class Rollouts(Protocol):
    """The rollout workers, as one."""

    def stream(self, tickets: Sequence[Ticket]) -> AsyncIterator[FinishedGroup]:
        """Yield each ticket's group as it finishes, in completion order."""
        ...

    async def load(self, snapshot: WeightSnapshot) -> float:
        """Load new weights into every engine and prove it.

        Returns the largest absolute difference of probe log-probabilities, nats.
        Raises SyncError naming the engine when the proof fails.
        """
        ...


class Verdicts(Protocol):
    """The verifier pool."""

    async def grade(self, group: FinishedGroup) -> GradedGroup:
        """A verdict for every sibling; a crash or a timeout is a verdict of its own kind."""
        ...


class Buffer(Protocol):
    """The central buffer, where the generating and the learning stream meet."""

    async def insert(self, group: GradedGroup) -> None: ...

    async def take(self, step: int, count: int) -> list[GradedGroup]:
        """The `count` groups reserved for `step`, in ticket order; waits until all are in."""
        ...


class Allocator(Protocol):
    """Decides how many rollouts each prompt gets."""

    async def allocate(self, prompts: Sequence[Prompt], budget: int) -> np.ndarray:
        """int64 [B] counts that sum to `budget`."""
        ...

    async def observe(self, groups: Sequence[GradedGroup]) -> None:
        """Learn from raw outcomes."""
        ...


class Learner(Protocol):
    """All learner ranks, as one."""

    async def update(self, batch: TrainBatch) -> LearnerReport: ...

    async def publish(self, version: int) -> WeightSnapshot:
        """Make the current weights available to engines under `version`."""
        ...

    async def save(self, folder: Path) -> None: ...

    async def state(self) -> dict[str, Any]: ...
