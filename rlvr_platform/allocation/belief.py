"""What is believed of each prompt's success probability before its rollouts are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlvr_platform.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """A distribution over p for each of B prompts, as a quadrature of K nodes.

    E[f(p_q)] is sum_k weights[k] f(nodes[q, k]). Raises InputError when a node is no probability,
    and when there are no prompts.
    """

    nodes: np.ndarray
    """float64 [B, K], values of p in [0, 1]."""
    weights: np.ndarray
    """float64 [K], not negative, sum to 1."""

    def __post_init__(self) -> None:
        if self.nodes.ndim != 2 or self.weights.shape != self.nodes.shape[1:]:
            raise ValueError(f"nodes {self.nodes.shape} do not fit weights {self.weights.shape}")
        if not (self.weights >= 0).all() or abs(self.weights.sum() - 1) > 1e-9:
            raise ValueError("quadrature weights must be non-negative and sum to 1")
        if not len(self.nodes):
            raise InputError("no prompts", "a success probability for each of at least one prompt")
        _require_probabilities(self.nodes)

    @property
    def size(self) -> int:
        """B, the number of prompts."""
        return len(self.nodes)

    @property
    def mean(self) -> np.ndarray:
        """float64 [B], E[p]."""
        return self.nodes @ self.weights

    @property
    def variance_term(self) -> np.ndarray:
        """float64 [B], E[p(1-p)]: the expected variance of one binary reward."""
        return (self.nodes * (1 - self.nodes)) @ self.weights


def certain(p: ArrayLike) -> Belief:
    """The belief that prompt q succeeds with probability p[q] exactly; `p` has shape [B]."""
    return Belief(np.asarray(p, dtype=np.float64)[:, None], np.ones(1))


def _require_probabilities(nodes: np.ndarray) -> None:
    bad = np.argwhere(~((nodes >= 0) & (nodes <= 1)))
    if len(bad):
        prompt, node = bad[0]
        raise InputError(
            f"success probability {float(nodes[prompt, node])!r} at prompt {prompt}",
            "a number in [0, 1]",
            "correct p at that position (counted from 0)",
        )
