"""Advantage collapse: groups whose rewards are all equal teach nothing (arXiv 2605.21125).

The advantage collapse rate (ACR) comes in three forms: by group (the paper's), by rollout (the
compute that is wasted), and expected under a predictor of success, before any rollout is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.algorithms.advantages import SIGNAL_STD


@dataclass(frozen=True, slots=True, eq=False)
class GroupStatistics:
    """What the rewards of B groups say of each group."""

    size: np.ndarray
    """int64 [B], rewards in the group."""
    mean: np.ndarray
    """float64 [B], mean reward; NaN in a group without any reward."""
    collapsed: np.ndarray
    """bool [B], no signal, as `has_signal` has it: a population standard deviation below 1e-6,
    or fewer than two rewards."""

    @property
    def rate_by_group(self) -> float:
        """See `collapse_rate_by_group`."""
        measured = self.size > 0
        count = np.count_nonzero(measured)
        return np.count_nonzero(self.collapsed & measured) / count if count else np.nan

    @property
    def rate_by_rollout(self) -> float:
        """See `collapse_rate_by_rollout`."""
        count = self.size.sum()
        return float(self.size @ self.collapsed / count) if count else np.nan

    @property
    def mean_reward(self) -> float:
        """Mean over prompts of the prompt's mean reward; NaN when no group has a reward."""
        measured = self.mean[self.size > 0]
        return float(measured.mean()) if len(measured) else np.nan


def group_statistics(rewards: Sequence[np.ndarray]) -> GroupStatistics:
    """Statistics of all groups in one pass; `rewards` holds one float64 [G] per group.

    Raises ValueError when a reward is not finite: a rollout without a verdict belongs to no group.
    """
    size = np.fromiter(map(len, rewards), np.int64, len(rewards))
    return flat_statistics(np.concatenate(rewards) if len(rewards) else np.empty(0), size)


def flat_statistics(flat: np.ndarray, size: np.ndarray) -> GroupStatistics:
    """As `group_statistics`, of groups that lie one behind the other.

    `flat` is float64 [sum of `size`], `size` int64 [B].
    """
    if not np.isfinite(flat).all():
        raise ValueError("a reward is not finite; leave out rollouts without a verdict")
    mean, variance = np.full(len(size), np.nan), np.zeros(len(size))
    filled = np.flatnonzero(size)
    mean[filled], variance[filled] = _moments(flat, size[filled])
    return GroupStatistics(size, mean, variance < SIGNAL_STD**2)


def _moments(flat: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population variance, float64 [B] each, of groups none of which is empty."""
    starts = np.cumsum(size) - size
    mean = np.add.reduceat(flat, starts) / size
    centred = flat - np.repeat(mean, size)
    return mean, np.add.reduceat(centred * centred, starts) / size


def collapsed(rewards: Sequence[np.ndarray]) -> np.ndarray:
    """bool [B]: which groups carry no signal; `rewards` holds one float64 [G] per group."""
    return group_statistics(rewards).collapsed


def collapse_rate_by_group(rewards: Sequence[np.ndarray]) -> float:
    """ACR: share of the groups that are collapsed. Groups without any reward are not counted.

    NaN when no group has a reward.
    """
    return group_statistics(rewards).rate_by_group


def collapse_rate_by_rollout(rewards: Sequence[np.ndarray]) -> float:
    """Share of the rewarded rollouts that sit in collapsed groups: the compute that is wasted.

    NaN when there is no reward.
    """
    return group_statistics(rewards).rate_by_rollout


def collapse_probability(
    p_nodes: np.ndarray, weights: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """float64 [B]: chance that a prompt's rollouts are all correct or all wrong.

    E[p^n + (1-p)^n] over the predictor's posterior of the success probability p, given by
    quadrature: `p_nodes` float64 [B, K] within [0, 1], `weights` float64 [K] that sum to 1;
    `counts` int64 [B] rollouts n, at least 1. A point prediction is K = 1.

    Raises ValueError outside of these limits.
    """
    if p_nodes.shape != (len(counts), len(weights)):
        raise ValueError(f"p_nodes {p_nodes.shape} is not counts x weights")
    if not ((p_nodes >= 0) & (p_nodes <= 1)).all():
        raise ValueError("a success probability is outside [0, 1]")
    if (counts < 1).any() or not np.isclose(weights.sum(), 1.0, atol=1e-6):
        raise ValueError("every prompt needs a rollout, and weights must sum to 1")
    n = counts[:, None]
    return (p_nodes**n + (1.0 - p_nodes) ** n) @ weights


def expected_collapse(p_nodes: np.ndarray, weights: np.ndarray, counts: np.ndarray) -> float:
    """ACR by group to expect: mean of `collapse_probability`; NaN without a prompt."""
    chance = collapse_probability(p_nodes, weights, counts)
    return float(chance.mean()) if len(chance) else np.nan


def expected_collapse_by_rollout(
    p_nodes: np.ndarray, weights: np.ndarray, counts: np.ndarray
) -> float:
    """ACR by rollout to expect: as `expected_collapse`, prompts weighted by their rollouts."""
    chance = collapse_probability(p_nodes, weights, counts)
    return float(counts @ chance / counts.sum()) if len(chance) else np.nan
