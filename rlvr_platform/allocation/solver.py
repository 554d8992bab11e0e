"""How many rollouts each prompt gets: min sum_q c_q(n_q), sum_q n_q = budget, lower <= n <= upper.

All costs are discretely convex, so an allocation is optimal exactly when no unit is worth more
elsewhere: max_q gain_q(n_q) <= min_q gain_q(n_q - 1) over the units that may still be given and
taken. Two gains that differ by less than the noise of float64 count as equal; among equals, the
prompt with fewer rollouts is served first, then the one with the lower index. Hence p and 1-p
are treated alike, and prompts without any gain share evenly.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from rlvr_platform.allocation.belief import Belief
from rlvr_platform.allocation.objectives import OBJECTIVES, ObjectiveName, VarianceObjective
from rlvr_platform.errors import ConfigError

_NOISE = 1e-14
"""Gains are at most 1/2, and float64 knows 1 - p, and so a gain, to a few 1e-16 only."""
_PRECISION = 1e-7
"""Of the multiplier, relative. The counts on either side of it are interpolated, so that they sum
up exactly and the cost is off by the square of this only."""


def closed_form(
    belief: Belief, budget: int, lower: int, upper: int, objective: ObjectiveName
) -> np.ndarray:
    """int64 [B], an exactly optimal allocation in near-linear time.

    Relax, floor, and give the remaining units to the largest gains (arXiv 2602.01601). Rounding
    so can miss the optimum when counts differ much, so the units next to the floor compete as
    well, and more of them until no prompt has used all that it was offered. grpo_std and
    mixed_prob have no closed form: there, the even split takes the floor's place.
    Raises ConfigError when no allocation exists.
    """
    check_budget(belief.size, budget, lower, upper, objective)
    if isinstance(OBJECTIVES[objective], VarianceObjective):
        start = continuous_optimum(belief, budget, lower, upper, objective).astype(np.int64)
    else:
        start = np.full(belief.size, budget // belief.size)
    reach = 1
    while True:
        low, high = np.maximum(start - reach, lower), np.minimum(start + reach + 1, upper)
        counts = _best_between(belief, budget, low, high, objective)
        if _is_free(counts, low, lower) and _is_free(counts, high, upper):
            return counts
        reach *= 4


def greedy(
    belief: Belief, budget: int, lower: int, upper: int, objective: ObjectiveName
) -> np.ndarray:
    """int64 [B], an exactly optimal allocation, by giving one unit after the other from `lower`.

    O(budget * B): the plain reference. Raises ConfigError when no allocation exists.
    """
    check_budget(belief.size, budget, lower, upper, objective)
    counts = np.full(belief.size, lower, dtype=np.int64)
    while counts.sum() < budget:
        gains = OBJECTIVES[objective].gain(belief, counts)
        gains[counts == upper] = -np.inf
        equal = np.flatnonzero(gains >= gains.max() - _NOISE)
        counts[equal[np.argmin(counts[equal])]] += 1
    return counts


def continuous_optimum(
    belief: Belief, budget: int, lower: int, upper: int, objective: ObjectiveName
) -> np.ndarray:
    """float64 [B], the optimum over real counts, for dr_grpo and rloo.

    Brackets the multiplier lam of the budget: -a_q v'(n_q) = lam, clipped to the bounds (arXiv
    2602.01601), by Brent's method, which takes a third of bisection's steps. Prompts with
    a_q = 0, to float64, get `lower`, or share what others cannot take.
    Raises ConfigError when no allocation exists, ValueError for the other objectives.
    """
    check_budget(belief.size, budget, lower, upper, objective)
    chosen = OBJECTIVES[objective]
    if not isinstance(chosen, VarianceObjective):
        raise ValueError(f"{objective} has no closed-form relaxation")
    useful = belief.variance_term > _NOISE
    idle = int((~useful).sum())
    counts = np.full(belief.size, float(lower))
    counts[useful] = float(upper)
    if counts.sum() <= budget and idle:
        counts[~useful] += (budget - counts.sum()) / idle
        return counts
    counts[useful] = _at_equal_slope(
        chosen, belief.variance_term[useful], budget - idle * lower, lower, upper
    )
    return counts


def check_budget(
    prompts: int, budget: int, lower: int, upper: int, objective: ObjectiveName
) -> None:
    """Raise ConfigError unless `budget` can be spread over `prompts` within the bounds."""
    least = OBJECTIVES[objective].minimum
    if lower < least:
        raise ConfigError(
            f"a minimum of {lower} rollouts a prompt with the objective {objective}",
            f"at least {least}: below, the objective is undefined or not convex",
            f"raise the minimum to {least} or choose another objective",
        )
    if lower > upper:
        raise ConfigError(
            f"a minimum of {lower} and a maximum of {upper} rollouts a prompt",
            "a minimum that is not above the maximum",
            "lower the minimum or raise the maximum",
        )
    if not prompts * lower <= budget <= prompts * upper:
        raise ConfigError(
            f"a budget of {budget} rollouts for {prompts} prompts of {lower} to {upper} each",
            f"a budget from {prompts * lower} to {prompts * upper}",
            "change the budget, the number of prompts, or the minimum or maximum a prompt",
        )


def _at_equal_slope(
    objective: VarianceObjective, a: np.ndarray, total: int, lower: int, upper: int
) -> np.ndarray:
    """Real counts with sum `total` at which all unclipped prompts have equal slope; a > 0."""
    if total in (lower * len(a), upper * len(a)):
        return np.full(len(a), total / len(a))
    log_a = np.log(a)

    def counts_at(log_multiplier: float) -> np.ndarray:
        return np.clip(objective.count_at(np.exp(log_multiplier - log_a)), lower, upper)

    ends = np.log(objective.slope(np.array([upper, lower])))
    low = log_a.min() + ends[0] - _PRECISION
    high = log_a.max() + ends[1] + _PRECISION
    root = brentq(lambda x: counts_at(x).sum() - total, low, high, xtol=_PRECISION / 4)
    # Counts may jump between the two: Dr. GRPO's slope is flat at n = 3.
    more, fewer = counts_at(root - _PRECISION), counts_at(root + _PRECISION)
    spread = more.sum() - fewer.sum()
    share = (total - fewer.sum()) / spread if spread > 0 else 0.0
    return fewer + (more - fewer) * min(max(share, 0.0), 1.0)


def _best_between(
    belief: Belief, budget: int, low: np.ndarray, high: np.ndarray, objective: ObjectiveName
) -> np.ndarray:
    """The optimum with bounds low[q] <= n_q <= high[q]: the units with the largest gains."""
    n = low[:, None] + np.arange((high - low).max())
    units = budget - int(low.sum())
    if units == 0:
        return low
    gains = OBJECTIVES[objective].gain(belief, n)
    gains[n >= high[:, None]] = -np.inf
    level = -np.partition(-gains, units - 1, axis=None)[units - 1]
    taken = gains > level + _NOISE
    rows, columns = np.nonzero(np.abs(gains - level) <= _NOISE)
    first = np.lexsort((rows, n[rows, columns]))[: units - int(taken.sum())]
    taken[rows[first], columns[first]] = True
    return low + taken.sum(axis=1)


def _is_free(counts: np.ndarray, bound: np.ndarray, real_bound: int) -> bool:
    """Whether no prompt was stopped by `bound` where that is not the real one."""
    return bool(((counts != bound) | (bound == real_bound)).all())
