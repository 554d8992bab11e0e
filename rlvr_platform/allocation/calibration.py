"""How good predicted success probabilities were, against the rollouts drawn afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Reliability:
    """Predicted against observed accuracy, bins of equal width over [0, 1]; arrays are [bins].

    A calibrated predictor has predicted = observed in every bin, up to sampling noise.
    """

    predicted: np.ndarray
    """float64, mean prediction of the bin's rollouts; NaN in an empty bin."""
    observed: np.ndarray
    """float64, accuracy of the bin's rollouts; NaN in an empty bin."""
    counts: np.ndarray
    """int64, rollouts in the bin."""


def brier(p: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> float:
    """Mean over rollouts of (p - outcome)^2: 0 is perfect, 0.25 is what p = 0.5 always gets.

    `p` float64 [B], `successes` float64 [B] of `counts` int64 [B] rollouts that each succeed or
    fail. NaN without rollouts. The outcomes' own variance is part of it, so only differences
    between predictors on the same rollouts mean something (Brier 1950).
    """
    _check(p, successes, counts)
    total = counts.sum()
    if total == 0:
        return float("nan")
    failures = counts - successes
    return float((successes * (1.0 - p) ** 2 + failures * p**2).sum() / total)


def reliability(
    p: np.ndarray, successes: np.ndarray, counts: np.ndarray, bins: int = 10
) -> Reliability:
    """Bin the predictions; each prompt weighs as many as its rollouts. Shapes as in `brier`."""
    _check(p, successes, counts)
    if bins < 1:
        raise ValueError(f"{bins} bins")
    place = np.minimum((p * bins).astype(np.int64), bins - 1)
    drawn = np.bincount(place, weights=counts, minlength=bins)
    predicted = np.bincount(place, weights=p * counts, minlength=bins)
    observed = np.bincount(place, weights=successes, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(predicted / drawn, observed / drawn, drawn.astype(np.int64))


def _check(p: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
    if not p.shape == successes.shape == counts.shape:
        raise ValueError(f"p {p.shape}, successes {successes.shape}, counts {counts.shape} differ")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("a predicted probability is NaN or outside [0, 1]")
    if not ((successes >= 0) & (successes <= counts)).all():
        raise ValueError("successes are NaN or outside [0, count]")
