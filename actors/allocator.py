"""The allocator actor: predictor and solver, and as the loop's `Allocator` port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.deadlines import within
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.memory import peak_memory
from rlvr_platform.types import Allocation, Observation, Prompt

START_DEADLINE_S = 600.0
DEADLINE_S = 120.0


@ray.remote
class AllocatorActor:
    """Decides how many rollouts each prompt of a step gets, and learns from what they became."""

    def __init__(self, config: ExperimentConfig, model: str) -> None:
        self._config = config
        self._model = model

    def start(self, prompts: Sequence[Prompt]) -> None:
        """Embed the prompts, where the configured allocator predicts."""
        from rlvr_platform.allocation.allocator import make_allocator

        self._allocator = make_allocator(self._config, prompts, self._model)

    def allocate(self, prompts: np.ndarray, budget: int) -> Allocation:
        """Spread `budget` over prompts given by their index, int64 [B]."""
        return self._allocator.allocate(prompts, budget)

    def observe(self, observation: Observation) -> None:
        """Learn from a step's raw outcomes."""
        self._allocator.observe(observation)

    def save(self, folder: str) -> None:
        """Write the predictor's state."""
        self._allocator.save(Path(folder))

    def load(self, folder: str) -> None:
        """Go on from what `save` wrote."""
        self._allocator.load(Path(folder))

    def peak_memory(self) -> int:
        return peak_memory()


class RemoteAllocator:
    """The allocator actor behind the `Allocator` protocol."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def start(self, prompts: Sequence[Prompt]) -> None:
        """Embed the prompts; raises DeadlineError when that takes too long."""
        call = self._actor.start.remote(prompts)
        await within(call, START_DEADLINE_S, "the allocator's start", "see the allocator's log")

    async def allocate(self, prompts: Sequence[Prompt], budget: int) -> Allocation:
        indices = np.array([prompt.index for prompt in prompts], np.int64)
        return await self._call("allocate", indices, budget)

    async def observe(self, observation: Observation) -> None:
        await self._call("observe", observation)

    async def save(self, folder: Path) -> None:
        await self._call("save", str(folder))

    async def load(self, folder: Path) -> None:
        await self._call("load", str(folder))

    async def _call(self, method: str, *arguments: Any) -> Any:
        call = getattr(self._actor, method).remote(*arguments)
        return await within(call, DEADLINE_S, f"the allocator's {method}", "see its log")
