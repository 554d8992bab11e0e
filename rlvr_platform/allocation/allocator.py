"""The configured allocator as one plain object, addressed by `Prompt.index`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from rlvr_platform.allocation.uniform import uniform
from rlvr_platform.config.allocator import VipConfig
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import InputError
from rlvr_platform.files import NPZ_ERRORS
from rlvr_platform.types import Allocation, Observation, Prompt

STATE_FILE = "predictor.npz"


class PlainAllocator(Protocol):
    """What the allocator actor holds."""

    def allocate(self, prompts: np.ndarray, budget: int) -> Allocation:
        """Spread `budget` over the prompts with these indices, int64 [B]."""
        ...

    def observe(self, observation: Observation) -> None:
        """Learn from a step's raw outcomes."""
        ...

    def save(self, folder: Path) -> None:
        """Write what was learned into an existing folder."""
        ...

    def load(self, folder: Path) -> None:
        """Go on from what `save` wrote. Raises InputError when it does not fit."""
        ...


def make_allocator(
    config: ExperimentConfig, prompts: Sequence[Prompt], model: str
) -> PlainAllocator:
    """The allocator of `config.allocator` for these prompts; `model` is the policy's folder."""
    if not isinstance(config.allocator, VipConfig):
        return Uniform()
    return Predicting(config.allocator, prompts, model)


class Uniform:
    """The same number of rollouts for every prompt; predicts nothing and learns nothing."""

    def allocate(self, prompts: np.ndarray, budget: int) -> Allocation:
        unknown = np.full(len(prompts), np.nan)
        return Allocation(uniform(len(prompts), budget), unknown, unknown, float("nan"))

    def observe(self, observation: Observation) -> None: ...

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...


class Predicting:
    """VIP over the prompts of a run: from indices to rows of the embedding and back."""

    def __init__(self, config: VipConfig, prompts: Sequence[Prompt], model: str) -> None:
        from rlvr_platform.allocation.embeddings import embed
        from rlvr_platform.allocation.vip import VipAllocator

        self._indices = np.array([prompt.index for prompt in prompts], np.int64)
        embeddings = embed(config.embedding, prompts, model)
        sources = tuple(prompt.source for prompt in prompts)
        self._vip = VipAllocator(config, embeddings, sources)

    def allocate(self, prompts: np.ndarray, budget: int) -> Allocation:
        return self._vip.allocate(self._rows(prompts), budget)

    def observe(self, observation: Observation) -> None:
        rows, counts = self._rows(observation.prompts), observation.counts
        self._vip.observe(rows, observation.successes, counts)
        self._vip.observe_lengths(rows, observation.tokens.astype(np.float64), counts)

    def save(self, folder: Path) -> None:
        np.savez(folder / STATE_FILE, allow_pickle=False, **self._vip.state())

    def load(self, folder: Path) -> None:
        path = folder / STATE_FILE
        try:
            with np.load(path, allow_pickle=False) as state:
                self._vip.restore(dict(state))
        except NPZ_ERRORS as error:
            raise InputError(
                f"cannot read {path}: {error}",
                "the allocator's state of an undamaged checkpoint",
                "remove that checkpoint, so that the run resumes from an older one",
            ) from None

    def _rows(self, prompts: np.ndarray) -> np.ndarray:
        """int64 [B] positions among the prompts of the run, whose indices ascend."""
        rows = np.searchsorted(self._indices, prompts)
        if not np.array_equal(self._indices[np.minimum(rows, len(self._indices) - 1)], prompts):
            raise ValueError("an index belongs to no prompt of this run")
        return rows
