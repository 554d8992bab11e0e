"""Accuracy from counts of right completions, with an interval over prompts.

Axis: N prompts. `correct` is c, right completions of a prompt; `samples` is n, its completions
that have a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over prompts and its bootstrap confidence interval."""

    value: float
    low: float
    high: float


def avg_at_k(correct: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """float64 [N]: c / n, each prompt's share of right completions.

    `correct`, `samples`: int [N] with 0 <= c <= n and n >= 1, else ValueError.
    """
    c, n = _counts(correct, samples, minimum=1)
    return c / n


def pass_at_k(correct: np.ndarray, samples: np.ndarray, k: int) -> np.ndarray:
    """float64 [N]: 1 - C(n-c, k) / C(n, k), the chance that k drawn of n hold a right one.

    Unbiased for any n >= k (Chen et al., arXiv 2107.03374, section 2.1). `correct`,
    `samples`: int [N] with 0 <= c <= n and n >= k >= 1, else ValueError.
    """
    if k < 1:
        raise ValueError(f"k={k}, must be at least 1")
    c, n = _counts(correct, samples, minimum=k)
    all_wrong = np.ones(len(c))
    for i in range(k):
        # Drawing one after another: the i-th is wrong with chance (n - c - i) / (n - i).
        all_wrong *= np.maximum(n - c - i, 0) / (n - i)
    return 1.0 - all_wrong


def bootstrap(
    values: np.ndarray, seed: int, level: float = 0.95, resamples: int = 2000
) -> Estimate:
    """Mean of `values` (float [N], N >= 1) and its percentile bootstrap interval over prompts.

    Prompts are resampled, not completions: siblings of one prompt are not independent.
    The same `seed` gives the same interval.
    """
    values = np.asarray(values, dtype=np.float64)
    if not len(values):
        raise ValueError("an estimate needs at least one prompt")
    rng, size = np.random.default_rng(seed), len(values)
    means = [values[rng.integers(size, size=size)].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(values.mean()), float(low), float(high))


def _counts(
    correct: np.ndarray, samples: np.ndarray, minimum: int
) -> tuple[np.ndarray, np.ndarray]:
    c, n = np.broadcast_arrays(np.atleast_1d(correct), np.atleast_1d(samples))
    if (c < 0).any() or (c > n).any():
        raise ValueError("the right completions of a prompt must be between 0 and its samples")
    if (n < minimum).any():
        raise ValueError(f"a prompt has {n.min()} samples, at least {minimum} needed")
    return c, n
