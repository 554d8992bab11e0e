"""Which rollouts of a group are trained on: PODS and its baselines (arXiv 2504.13818).

Axis names: B groups, n siblings of a group, m siblings kept. Every rule is a choice of m ranks
in the order of the rewards, and siblings with equal rewards stand in a seeded random order
there. Arrival order, which follows completion length, therefore never decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rlvr_platform.errors import ConfigError

Rule = Literal["max_variance", "random", "max_reward", "percentile"]

LEAST_KEPT = 2
"""One rollout has no sibling to be compared with, so its advantage is always 0."""
LARGEST_REWARD = 1e150
"""Magnitude above which the square of a reward would overflow."""
TIE_SLACK = 1e-12
"""Relative difference below which two variances are equal: rounding must not decide."""


def downsample(
    rewards: Sequence[np.ndarray], keep: int, rule: Rule, seed: int, group_ids: np.ndarray
) -> list[np.ndarray]:
    """The siblings kept of each group: sorted int64 [min(m, n)] indices into its rewards.

    rewards: B arrays of numbers [n], n may differ and may be 0. A rollout without a verdict
    must be taken out before.
    keep: m. A group of n <= m siblings stays whole.
    rule: max_variance, the subset of largest variance (see `highest_counts`); random; max_reward,
    the m highest; percentile, evenly spaced ranks of the sorted rewards, both ends included.
    seed, group_ids: any integer, and integers [B]. Randomness is a function of (seed, group id,
    sibling) alone, so a group's choice does not depend on the rest of the batch. Among siblings
    with equal rewards it is uniform; a group of equal rewards keeps a random m.

    Raises ConfigError for m < 2, ValueError for rewards that are NaN, infinite or beyond 1e150.
    """
    if keep < LEAST_KEPT:
        raise ConfigError(
            f"down-sampling to {keep} of a group's rollouts",
            f"{LEAST_KEPT} or more: advantages compare the rollouts that are kept",
        )
    groups = [np.asarray(group, np.float64) for group in rewards]
    _check(groups, group_ids)
    kept = [np.arange(len(group)) for group in groups]
    sizes = np.array([len(group) for group in groups], np.int64)
    for size in np.unique(sizes[sizes > keep]):
        members = np.flatnonzero(sizes == size)
        matrix = np.stack([groups[i] for i in members])
        chosen = _choose(matrix, keep, rule, sibling_keys(seed, group_ids[members], int(size)))
        for index, row in zip(members, chosen, strict=True):
            kept[index] = row
    return kept


def subset_variance(rewards: np.ndarray, kept: np.ndarray) -> float:
    """Population variance (ddof=0) of the rewards [n] at the indices `kept`, one or more."""
    if not len(kept):
        raise ValueError("the variance of no rewards is not defined")
    return float(np.var(np.asarray(rewards, np.float64)[kept]))


def highest_counts(ordered: np.ndarray, keep: int) -> np.ndarray:
    """How many of the m kept are the highest rewards, int64 [B]; the rest are the lowest.

    ordered: float64 [B, n], each row ascending, n >= m. Some subset of the k highest and m - k
    lowest has the largest variance of all subsets (arXiv 2504.13818), so k = 0..m is scanned
    with prefix sums of r and r^2, O(m) a group after the sort.

    Where several k reach it, within a relative 1e-12, the k nearest m/2 wins: with binary
    rewards it keeps m/2 of each class, or all of a class that has fewer. Of two equally near,
    the larger wins: one more high reward, the behaviour to reinforce.
    """
    centred = ordered - ordered.mean(axis=1, keepdims=True)
    peak = np.abs(centred).max(axis=1, keepdims=True)
    # Unit scale: squares of tiny rewards would underflow, and the comparison is relative.
    scaled = centred / np.where(peak > 0, peak, 1.0)
    lowest, highest = scaled[:, :keep], scaled[:, ::-1][:, :keep]
    sums = _prefix_sums(lowest)[:, ::-1] + _prefix_sums(highest)
    squares = _prefix_sums(lowest**2)[:, ::-1] + _prefix_sums(highest**2)
    variance = squares / keep - (sums / keep) ** 2
    best = variance >= variance.max(axis=1, keepdims=True) * (1 - TIE_SLACK)
    preference = np.array(sorted(range(keep + 1), key=lambda k: (abs(2 * k - keep), -k)))
    return preference[best[:, preference].argmax(axis=1)]


def sibling_keys(seed: int, group_ids: np.ndarray, size: int) -> np.ndarray:
    """Random uint64 [B, n], a pure function of (seed, group id, sibling), by `splitmix64`.

    Seed and group id give the start of a group's own sequence, and sibling i takes its i-th
    number. The numbers of a group are all different, because the mixer is a bijection.
    """
    start = splitmix64(np.array([seed % 2**64], np.uint64))
    start = splitmix64(start + group_ids.astype(np.uint64))
    return splitmix64(start[:, None] + _GAMMA * np.arange(size, dtype=np.uint64))


_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def splitmix64(state: np.ndarray) -> np.ndarray:
    """First output of the SplitMix64 generator from each state, uint64 to uint64, any shape.

    A counter-based bit mixer (Steele, Lea and Flood, OOPSLA 2014); arithmetic modulo 2^64.
    """
    mixed = state + _GAMMA
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _choose(rewards: np.ndarray, keep: int, rule: Rule, keys: np.ndarray) -> np.ndarray:
    """Sorted indices int64 [B, m] out of rewards float64 [B, n], n > m."""
    by = (keys,) if rule == "random" else (keys, rewards)
    order = np.lexsort(by, axis=1)
    ordered = np.take_along_axis(rewards, order, axis=1)
    return np.sort(np.take_along_axis(order, _ranks(ordered, keep, rule), axis=1), axis=1)


def _ranks(ordered: np.ndarray, keep: int, rule: Rule) -> np.ndarray:
    """Positions in the order that are kept, int64 [1 or B, m]."""
    slot, size = np.arange(keep), ordered.shape[1]
    if rule == "random":
        return slot[None]
    if rule == "max_reward":
        return slot[None] + size - keep
    if rule == "percentile":
        # slot * (n - 1) / (m - 1), rounded half up in integers.
        return (2 * slot * (size - 1) + keep - 1)[None] // (2 * (keep - 1))
    lowest = keep - highest_counts(ordered, keep)[:, None]
    return np.where(slot < lowest, slot, slot + size - keep)


def _prefix_sums(values: np.ndarray) -> np.ndarray:
    """Sums of the first 0..m values of each row, [B, m] to [B, m + 1]."""
    return np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0)))


def _check(groups: Sequence[np.ndarray], group_ids: np.ndarray) -> None:
    integers = len(group_ids) == 0 or np.issubdtype(group_ids.dtype, np.integer)
    if group_ids.shape != (len(groups),) or not integers:
        raise ValueError(
            f"{len(groups)} groups need as many integer ids, "
            f"got {group_ids.dtype} {group_ids.shape}"
        )
    for index, group in enumerate(groups):
        if group.ndim != 1:
            raise ValueError(f"the rewards of group {index} must be one row, got {group.shape}")
    # One pass over everything: a check of each small array would cost more than the choice.
    if _out_of_range(np.concatenate([*groups, np.empty(0)])).any():
        index = next(i for i, group in enumerate(groups) if _out_of_range(group).any())
        sibling = int(_out_of_range(groups[index]).argmax())
        raise ValueError(
            f"group {index} (id {group_ids[index]}), sibling {sibling}: the reward "
            f"{groups[index][sibling]} is not a number within +-{LARGEST_REWARD:g}; leave "
            "rollouts without a verdict out"
        )


def _out_of_range(values: np.ndarray) -> np.ndarray:
    # NaN compares false with everything.
    return ~(np.abs(values) <= LARGEST_REWARD)
