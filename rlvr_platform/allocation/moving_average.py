"""The baseline of every prediction: each prompt's own past outcomes."""

from __future__ import annotations

import numpy as np

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.allocation.predictor import (
    Evidence,
    State,
    check_successes,
    joined,
    part,
)
from rlvr_platform.config.allocator import MovingAverageConfig


class PooledMean:
    """Discounted mean of each prompt, (s + c mu) / (n + c): s over n rollouts, c of them at mu.

    mu is the discounted mean over all prompts' rollouts, so that a prompt never seen gets the
    present level of the data set. With decay 1 it is the plain mean. Keeps three columns [Q].
    """

    def __init__(self, prompt_count: int, decay: float, prior_rollouts: float) -> None:
        self._prior_rollouts = prior_rollouts
        self._own = Evidence(prompt_count, decay)
        self._all = Evidence(1, decay)

    def at(self, prompts: np.ndarray) -> np.ndarray:
        """float64 [B]; NaN before the first `add`."""
        left = self._own.weight(prompts)
        sums, counts = self._own.totals(prompts)
        prior = self._prior_rollouts
        return np.asarray((left * sums + prior * self._mean()) / (left * counts + prior))

    def add(self, prompts: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> None:
        """One step, see `Evidence.add`."""
        self._own.add(prompts, sums, counts)
        self._all.add(np.zeros_like(prompts), sums, counts)

    def state(self) -> dict[str, np.ndarray]:
        return joined(own=self._own.state(), all=self._all.state())

    def restore(self, state: State) -> None:
        self._own.restore(part(state, "own"))
        self._all.restore(part(state, "all"))

    def _mean(self) -> float:
        sums, counts = self._all.totals(np.zeros(1, dtype=np.int64))
        return float(sums[0] / counts[0]) if counts[0] else float("nan")


class MovingAverage:
    """Predicts each prompt's `PooledMean` of outcomes; 0.5 before the first observation."""

    def __init__(self, config: MovingAverageConfig, prompt_count: int) -> None:
        self._mean = PooledMean(prompt_count, config.decay, config.prior_rollouts)

    def predict(self, prompts: np.ndarray) -> Belief:
        """Every prompt's average, taken as certain."""
        return certain(np.clip(np.nan_to_num(self._mean.at(prompts), nan=0.5), 0.0, 1.0))

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """See `Predictor.observe`."""
        check_successes(successes, counts)
        self._mean.add(prompts, successes, counts)

    def state(self) -> dict[str, np.ndarray]:
        return self._mean.state()

    def restore(self, state: State) -> None:
        self._mean.restore(state)
