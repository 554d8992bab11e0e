"""What the rollout budget is spent to reduce: a cost c_q(n) of giving prompt q n rollouts.

Gradient variances hold for one prompt's estimator g = (1/n) sum_i A_i s_i, rewards r_i ~ B(p),
scores s_i independent of rewards and of each other, E[s_i] = 0 and Var[s_i] = 1. Then
Var[g] = E[sum_i A_i^2] / n^2, and each formula below is E[sum_i A_i^2] worked out (arXiv
2602.01601; the last two are derived here). Where p is uncertain, the cost is its expectation.

From `minimum` rollouts on every cost falls, by less with each further rollout (it is discretely
convex), which is what makes allocation by marginal gain exact. Counts `n` have shape [B], or
[B, N] for N counts a prompt; so have results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np

from rlvr_platform.allocation.belief import Belief

ObjectiveName = Literal["dr_grpo", "rloo", "grpo_std", "mixed_prob"]


class Objective(ABC):
    """One cost of rollouts."""

    name: ClassVar[ObjectiveName]
    minimum: ClassVar[int]
    """Least n from which the cost is discretely convex for every p: the least legal `lower`."""

    @abstractmethod
    def cost(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        """c_q(n), to be minimised."""

    @abstractmethod
    def gain(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        """c_q(n) - c_q(n + 1), without the cancellation of that difference."""

    def value(self, belief: Belief, n: np.ndarray) -> float:
        """The objective of a whole allocation, counts [B]."""
        return float(self.cost(belief, n).sum())


class VarianceObjective(Objective):
    """a_q v(n) with a_q = E[p(1-p)]: costs whose dependence on p is a factor."""

    @abstractmethod
    def shape(self, n: np.ndarray) -> np.ndarray:
        """v(n), for real n."""

    @abstractmethod
    def shape_gain(self, n: np.ndarray) -> np.ndarray:
        """v(n) - v(n + 1)."""

    @abstractmethod
    def slope(self, n: np.ndarray) -> np.ndarray:
        """-v'(n)."""

    @abstractmethod
    def count_at(self, slope: np.ndarray) -> np.ndarray:
        """The real n >= `minimum` at which -v'(n) is `slope`; `minimum` for a steeper one."""

    def cost(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        return _per_prompt(belief.variance_term, n) * self.shape(n)

    def gain(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        return _per_prompt(belief.variance_term, n) * self.shape_gain(n)


class DrGrpo(VarianceObjective):
    """A_i = r_i - mean(r), so v(n) = (n-1)/n^2 (arXiv 2602.01601).

    v''(n) = 2(n-3)/n^4, and the gains at n = 2, 3 are 1/36 < 5/144: convex from 3 on, not from 2.
    """

    name = "dr_grpo"
    minimum = 3

    def shape(self, n: np.ndarray) -> np.ndarray:
        return (n - 1) / _real(n) ** 2

    def shape_gain(self, n: np.ndarray) -> np.ndarray:
        n = _real(n)
        return (n**2 - n - 1) / (n * (n + 1)) ** 2

    def slope(self, n: np.ndarray) -> np.ndarray:
        return (n - 2) / _real(n) ** 3

    def count_at(self, slope: np.ndarray) -> np.ndarray:
        """The largest root of slope n^3 - n + 2 = 0, in Viète's trigonometric form."""
        root = np.sqrt(3 * np.minimum(slope, 1 / 27))
        return 2 / root * np.cos(np.arccos(np.maximum(-3 * root, -1.0)) / 3)


class Rloo(VarianceObjective):
    """A_i = n/(n-1) (r_i - mean(r)), so v(n) = 1/(n-1) (arXiv 2602.01601)."""

    name = "rloo"
    minimum = 2

    def shape(self, n: np.ndarray) -> np.ndarray:
        return 1 / (_real(n) - 1)

    def shape_gain(self, n: np.ndarray) -> np.ndarray:
        n = _real(n)
        return 1 / (n * (n - 1))

    def slope(self, n: np.ndarray) -> np.ndarray:
        return 1 / (_real(n) - 1) ** 2

    def count_at(self, slope: np.ndarray) -> np.ndarray:
        return 1 + 1 / np.sqrt(np.minimum(slope, 1.0))


class GrpoStd(Objective):
    """A_i = (r_i - mean(r)) / std(r), so c(n) = E[1 - p^n - (1-p)^n] / n.

    Discretely convex from n = 3 on and not from 2. With p <= 1/2, c(n) is the integral of
    (1-t)^(n-1) - t^(n-1) over t in [0, p], and its second difference that of
    t^2 (1-t)^2 ((1-t)^(n-3) - t^(n-3)): not negative for n >= 3, zero at n = 3, negative at 2.
    """

    name = "grpo_std"
    minimum = 3

    def cost(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        return _expected(belief, n, lambda p, n: (1 - p**n - (1 - p) ** n) / n)

    def gain(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        def at(p: np.ndarray, n: np.ndarray) -> np.ndarray:
            q = 1 - p
            return (1 - p**n * (1 + n * q) - q**n * (1 + n * p)) / (n * (n + 1))

        return _expected(belief, n, at)


class MixedProbability(Objective):
    """c(n) = -E[1 - p^n - (1-p)^n], so as to maximise the expected number of mixed groups.

    The right one when every mixed group carries the same weight, as under PODS. Its second
    difference p^n (1-p)^2 + (1-p)^n p^2 is never negative: convex from n = 1 on.
    """

    name = "mixed_prob"
    minimum = 1

    def cost(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        return _expected(belief, n, lambda p, n: p**n + (1 - p) ** n) - 1

    def gain(self, belief: Belief, n: np.ndarray) -> np.ndarray:
        return _expected(belief, n, lambda p, n: p * (1 - p) * (p ** (n - 1) + (1 - p) ** (n - 1)))

    def value(self, belief: Belief, n: np.ndarray) -> float:
        """The expected number of groups with both outcomes: larger is better."""
        return -super().value(belief, n)


OBJECTIVES: dict[ObjectiveName, Objective] = {
    objective.name: objective for objective in (DrGrpo(), Rloo(), GrpoStd(), MixedProbability())
}
"""Every objective by its name."""


def _real(n: np.ndarray) -> np.ndarray:
    # Squares of large integer counts would overflow.
    return np.asarray(n, dtype=np.float64)


def _per_prompt(values: np.ndarray, n: np.ndarray) -> np.ndarray:
    """`values` [B] in the dimensions of `n`."""
    return values if n.ndim == 1 else values[:, None]


def _expected(
    belief: Belief, n: np.ndarray, f: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """E[f(p, n)] in the shape of `n`; a node at a time, so that memory stays that of `n`."""
    total = np.zeros(n.shape)
    for nodes, weight in zip(belief.nodes.T, belief.weights, strict=True):
        total += weight * f(_per_prompt(nodes, n), _real(n))
    return total
