"""The five protocols by which the training loop knows the world.

Ray actors satisfy them through `actors/`; plain objects satisfy them in tests.
Every method that waits has a deadline inside and raises `DeadlineError` past it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from rlvr_platform.replay.buffer import BufferState
from rlvr_platform.replay.records import Draw
from rlvr_platform.types import (
    Allocation,
    FinishedGroups,
    GradedGroup,
    GradedGroups,
    LearnerReport,
    LoadReport,
    Observation,
    Prompt,
    Quarantined,
    Ticket,
    TrainBatch,
    WeightSnapshot,
)


class Rollouts(Protocol):
    """The rollout workers, as one."""

    def stream(
        self, tickets: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups | Quarantined]:
        """Yield the tickets' groups as they finish, and those tickets that are given up."""
        ...

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        """Load new weights into every engine and prove it.

        Raises SyncError naming the engine when the proof fails, WeightsLost when the weights are
        gone before all engines have them: publish them again.
        """
        ...


class Verdicts(Protocol):
    """The verifier pool."""

    async def grade(self, groups: FinishedGroups) -> GradedGroups:
        """A verdict for every sibling; a crash or a timeout is a verdict of its own kind."""
        ...


class Buffer(Protocol):
    """The central buffer, where the generating and the learning stream meet."""

    async def expect(self, step: int, group_ids: Sequence[int], more: bool) -> None:
        """Reserve places for a step's groups; waits while the buffer is full.

        With `more`, the step is not complete before a later call says that nothing more comes.
        """
        ...

    async def insert(self, groups: GradedGroups) -> None: ...

    async def take(self, step: int) -> tuple[list[GradedGroup], BufferState]:
        """A step's groups in ticket order, once all are in."""
        ...

    async def draw(self, step: int, version: int, rows: int) -> Draw:
        """Evict what is too old for `version`, then choose up to `rows` stored rollouts."""
        ...

    async def keep(
        self, step: int, advantages: Sequence[np.ndarray], priorities: Sequence[np.ndarray]
    ) -> None:
        """Store rollouts of a taken step for later draws: those whose priority is not NaN."""
        ...

    async def record(
        self,
        step: int,
        path: Path,
        advantages: Sequence[np.ndarray],
        fates: Sequence[np.ndarray],
    ) -> None:
        """Write every rollout of a taken step with verdict and fate, then let go of them."""
        ...

    async def release(self, step: int) -> None:
        """Let go of a taken step's groups unrecorded."""
        ...

    async def save(self, folder: Path) -> None:
        """Write what is stored for later draws."""
        ...

    async def load(self, folder: Path) -> None:
        """Go on from what `save` wrote."""
        ...


class Allocator(Protocol):
    """Decides how many rollouts each prompt gets."""

    async def allocate(self, prompts: Sequence[Prompt], budget: int) -> Allocation:
        """Spread `budget` rollouts over the prompts of a step."""
        ...

    async def observe(self, observation: Observation) -> None:
        """Learn from a step's raw outcomes."""
        ...

    async def save(self, folder: Path) -> None:
        """Write what has been learned about the prompts."""
        ...

    async def load(self, folder: Path) -> None:
        """Go on from what `save` wrote."""
        ...


class Learner(Protocol):
    """All learner ranks, as one."""

    async def update(self, batch: TrainBatch) -> LearnerReport: ...

    async def publish(self, version: int) -> WeightSnapshot:
        """Make the current weights available to engines under `version`."""
        ...

    async def send(self) -> None:
        """Take part while engines load what was published, where the transport needs it."""
        ...

    async def save(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder, and the optimizer's state."""
        ...

    async def load(self, folder: Path) -> None:
        """Go on from what `save` wrote."""
        ...

    def saved(self, checkpoint: Path) -> None:
        """Hear that a whole checkpoint is safe, under its final name."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything outside the loop."""

    rollouts: Rollouts
    verdicts: Verdicts
    buffer: Buffer
    allocator: Allocator
    learner: Learner
