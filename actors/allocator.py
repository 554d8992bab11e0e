"""The allocator actor, and as the loop's `Allocator` port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import ray

from actors.deadlines import within
from rlvr_platform.allocation.uniform import uniform
from rlvr_platform.config.allocator import AllocatorConfig
from rlvr_platform.memory import peak_memory
from rlvr_platform.types import Prompt

DEADLINE_S = 120.0


@ray.remote
class AllocatorActor:
    """Decides how many rollouts each prompt of a step gets."""

    def __init__(self, config: AllocatorConfig) -> None:
        self._config = config

    def allocate(self, prompt_indices: Sequence[int], budget: int) -> np.ndarray:
        """int64 [B] counts that sum to `budget`."""
        return uniform(len(prompt_indices), budget)

    def peak_memory(self) -> int:
        return peak_memory()


class RemoteAllocator:
    """The allocator actor behind the `Allocator` protocol."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def allocate(self, prompts: Sequence[Prompt], budget: int) -> np.ndarray:
        call = self._actor.allocate.remote([prompt.index for prompt in prompts], budget)
        return await within(call, DEADLINE_S, "the allocator", "see the allocator's log")
