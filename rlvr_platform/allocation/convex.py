"""The allocation as a convex program in cvxpy, for constraints that a closed form cannot take.

First the relaxation over real counts, then an integer program over the whole counts next to it.
The integer program contains every constraint, so what it returns satisfies them all. When no
whole counts there satisfy the constraints, all counts between the bounds are offered instead.
Constraints hold up to 1e-6 of their largest coefficient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

from rlvr_platform.allocation.belief import Belief
from rlvr_platform.allocation.objectives import OBJECTIVES, ObjectiveName
from rlvr_platform.allocation.solver import check_budget
from rlvr_platform.config.solver import AnyConstraint, SourceShare
from rlvr_platform.errors import ConfigError, NumericalError

_TOLERANCE = 1e-6
_REACH = 2
"""Whole counts offered to rounding beyond the two next to the relaxed optimum, on either side."""
_ROUNDING_GAP = 1e-4
"""Share of the gain decided in rounding that may be left: the last of it takes most of the time."""
_MAX_UNITS = 500_000
"""Rollouts above the minimum, over all prompts, that a program decides on one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearConstraint:
    """minimum <= coefficients @ n <= maximum, over the counts n of a step's prompts."""

    name: str
    """For messages."""
    coefficients: np.ndarray
    """float64 [B]."""
    minimum: float
    maximum: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.coefficients).all():
            raise ValueError(f"{self.name} has a coefficient that is not finite")

    def on(self, n: cp.Expression) -> list[cp.Constraint]:
        """As cvxpy constraints on `n` [B], scaled to coefficients of at most 1."""
        scale = self.scale
        total = (self.coefficients / scale) @ n
        limits = []
        if np.isfinite(self.minimum):
            limits.append(total >= self.minimum / scale)
        if np.isfinite(self.maximum):
            limits.append(total <= self.maximum / scale)
        return limits

    @property
    def scale(self) -> float:
        """The largest coefficient; 1 when all are zero."""
        return float(np.abs(self.coefficients).max()) or 1.0


def linear_constraints(
    constraints: Sequence[AnyConstraint],
    budget: int,
    sources: Sequence[str],
    tokens: np.ndarray,
) -> list[LinearConstraint]:
    """The configured constraints for one step's B prompts.

    `sources`: each prompt's data source. `tokens`: float64 [B], expected completion tokens of one
    rollout of each prompt.
    """
    return [
        _source_share(c, budget, sources)
        if isinstance(c, SourceShare)
        else LinearConstraint("token_budget", np.asarray(tokens, float), -np.inf, c.tokens)
        for c in constraints
    ]


def solve_convex(
    belief: Belief,
    budget: int,
    lower: int,
    upper: int,
    objective: ObjectiveName,
    constraints: Sequence[LinearConstraint] = (),
    deadline_s: float = 10.0,
) -> np.ndarray:
    """int64 [B], whole counts that keep every constraint, rounded from the relaxed optimum.

    Raises ConfigError when no counts satisfy all constraints, NumericalError when a solver gives
    up. Each of the two programs gets `deadline_s` seconds; rounding then takes the best found.
    """
    relaxed = relaxed_optimum(belief, budget, lower, upper, objective, constraints, deadline_s)
    start = np.floor(relaxed + _TOLERANCE).astype(np.int64)
    windows = (
        (np.maximum(start - _REACH, lower), np.minimum(start + 1 + _REACH, upper)),
        (np.full(belief.size, lower), np.full(belief.size, upper)),
    )
    for low, high in windows:
        units = _Units(belief, objective, low, high, whole=True)
        problem = cp.Problem(
            cp.Maximize(units.gain), _constraints(units.counts, budget, constraints)
        )
        # Presolve finds nothing to remove here and takes twenty times as long as the rest.
        options = {"time_limit": deadline_s, "mip_rel_gap": _ROUNDING_GAP, "presolve": False}
        counts = _solve(problem, units.counts, cp.SCIPY, scipy_options=options)
        if counts is not None:
            return _checked(np.rint(counts).astype(np.int64), budget, constraints)
    raise _contradiction(constraints, "whole numbers of rollouts")


def relaxed_optimum(
    belief: Belief,
    budget: int,
    lower: int,
    upper: int,
    objective: ObjectiveName,
    constraints: Sequence[LinearConstraint] = (),
    deadline_s: float = 10.0,
) -> np.ndarray:
    """float64 [B], the optimum over real counts; errors as `solve_convex`.

    For grpo_std and mixed_prob the cost between whole counts is interpolated linearly.
    """
    check_budget(belief.size, budget, lower, upper, objective)
    for constraint in constraints:
        _check_reachable(constraint, budget, lower, upper)
    n = cp.Variable(belief.size)
    cost, definitions = _model(n, belief, lower, upper, objective)
    problem = cp.Problem(
        cp.Minimize(cost),
        [n >= lower, n <= upper, *_constraints(n, budget, constraints), *definitions],
    )
    counts = _solve(problem, n, cp.CLARABEL, time_limit=deadline_s)
    if counts is None:
        raise _contradiction(constraints, "numbers of rollouts")
    return np.clip(counts, lower, upper)


class _Units:
    """Counts as `low` plus units taken one by one, which makes a discretely convex cost linear.

    A unit's gain falls along its prompt's row, so an optimum takes units from the front.
    """

    def __init__(
        self,
        belief: Belief,
        objective: ObjectiveName,
        low: np.ndarray,
        high: np.ndarray,
        whole: bool,
    ) -> None:
        width = max(int((high - low).max()), 1)
        if width * len(low) > _MAX_UNITS:
            raise ConfigError(
                f"a convex program over {len(low)} prompts with up to {width} rollouts each",
                f"at most {_MAX_UNITS} rollouts to decide on",
                "lower the maximum a prompt, or use the solver closed_form",
            )
        n = low[:, None] + np.arange(width)
        gains = OBJECTIVES[objective].gain(belief, n)
        offered = (n < high[:, None]).astype(float)
        taken = cp.Variable(n.shape, boolean=whole, bounds=[0.0, offered])
        self.counts = low + cp.sum(taken, axis=1)
        self.gain = cp.sum(cp.multiply(gains / (gains.max() or 1.0), taken))


def _model(
    n: cp.Variable, belief: Belief, lower: int, upper: int, objective: ObjectiveName
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """The cost as a disciplined convex expression in `n`, up to scale and constant."""
    a = belief.variance_term
    useful = np.flatnonzero(a)
    if objective in ("grpo_std", "mixed_prob"):
        bounds = np.full(belief.size, lower), np.full(belief.size, upper)
        units = _Units(belief, objective, *bounds, whole=False)
        return -units.gain, [n == units.counts]
    if not len(useful):
        return cp.Constant(0.0), []
    weight, m = a[useful] / a.max(), n[useful]
    if objective == "rloo":
        return weight @ cp.inv_pos(m - 1), []
    # (n-1)/n^2 = 1/3 - n/27 + (n-3)^3 / (27 n^2), and x^3/y^2 is the perspective of x^3: convex
    # in (x, y) for x >= 0. It is the least r with |x| <= r^(1/3) y^(2/3), a power cone.
    r = cp.Variable(len(useful))
    cone = cp.PowCone3D(r, m, m - 3, np.full(len(useful), 1 / 3))
    return weight @ (r - m), [cone]


def _constraints(
    n: cp.Expression, budget: int, constraints: Sequence[LinearConstraint]
) -> list[cp.Constraint]:
    return [cp.sum(n) == budget, *(limit for c in constraints for limit in c.on(n))]


def _solve(problem: cp.Problem, n: cp.Expression, solver: str, **options: Any) -> np.ndarray | None:
    """float64 [B], `n` at the optimum, or None when no `n` satisfies the constraints.

    Raises NumericalError on failure.
    """
    try:
        problem.solve(solver=solver, **options)
    except cp.SolverError as error:
        raise _failure(solver, str(error), n) from None
    if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
        return None
    if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE) or n.value is None:
        raise _failure(solver, f"it ended with status {problem.status}", n)
    return n.value


def _failure(solver: str, reason: str, n: cp.Expression) -> NumericalError:
    partial = "it left no counts"
    if n.value is not None:
        partial = (
            f"it left counts from {n.value.min():.4g} to {n.value.max():.4g} with sum "
            f"{n.value.sum():.6g}, which were not used"
        )
    return NumericalError(
        f"{solver} did not solve the allocation: {reason}; {partial}",
        "a solution within the deadline",
        "raise the solver's deadline_s, relax the constraints, or use the solver closed_form",
    )


def _source_share(section: SourceShare, budget: int, sources: Sequence[str]) -> LinearConstraint:
    return LinearConstraint(
        f"source_share of {section.source}",
        np.array([float(source == section.source) for source in sources]),
        float(np.ceil(section.minimum * budget - _TOLERANCE)),
        float(np.floor(section.maximum * budget + _TOLERANCE)),
    )


def _check_reachable(c: LinearConstraint, budget: int, lower: int, upper: int) -> None:
    least = _least(c.coefficients, budget, lower, upper)
    largest = 0.0 - _least(-c.coefficients, budget, lower, upper)
    slack = _TOLERANCE * c.scale
    if least > c.maximum + slack or largest < c.minimum - slack:
        raise ConfigError(
            f"the constraint {c.name} wants a sum from {c.minimum:g} to {c.maximum:g}, but "
            f"{len(c.coefficients)} prompts with {lower} to {upper} rollouts each and {budget} "
            f"in all reach {least:g} to {largest:g}",
            "a constraint that some allocation satisfies",
            "relax it, or change the budget, the minimum or the maximum a prompt",
        )


def _least(coefficients: np.ndarray, budget: int, lower: int, upper: int) -> float:
    """The least coefficients @ n: every spare rollout goes where it adds least."""
    ordered = np.sort(coefficients)
    spare = budget - lower * len(ordered)
    extra = np.clip(spare - np.arange(len(ordered)) * (upper - lower), 0, upper - lower)
    return float(ordered @ (lower + extra))


def _checked(
    counts: np.ndarray, budget: int, constraints: Sequence[LinearConstraint]
) -> np.ndarray:
    for c in constraints:
        total, slack = float(c.coefficients @ counts), _TOLERANCE * c.scale
        if not c.minimum - slack <= total <= c.maximum + slack or counts.sum() != budget:
            raise NumericalError(
                f"the rounded allocation breaks {c.name}: {total:g} for {counts.sum()} rollouts",
                f"a sum from {c.minimum:g} to {c.maximum:g} for {budget} rollouts",
                "use coefficients of similar size",
            )
    return counts


def _contradiction(constraints: Sequence[LinearConstraint], what: str) -> ConfigError:
    return ConfigError(
        f"no {what} satisfy the constraints together: {', '.join(c.name for c in constraints)}",
        "constraints that can hold at the same time",
        "relax one of them, or change the budget, the minimum or the maximum a prompt",
    )
