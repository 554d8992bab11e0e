"""VIP: predict success probabilities, then allocate rollouts (arXiv 2602.01601)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlvr_platform.algorithms.collapse import expected_collapse
from rlvr_platform.allocation.belief import Belief
from rlvr_platform.allocation.moving_average import MovingAverage, PooledMean
from rlvr_platform.allocation.predictor import (
    State,
    build_predictor,
    check_shapes,
    joined,
    part,
)
from rlvr_platform.allocation.solver import check_budget, closed_form, greedy
from rlvr_platform.allocation.uniform import uniform
from rlvr_platform.config.allocator import MovingAverageConfig, VipConfig
from rlvr_platform.config.solver import (
    ClosedFormSolver,
    CvxpySolver,
    GreedySolver,
    SourceShare,
    TokenBudget,
)
from rlvr_platform.errors import ConfigError, NumericalError
from rlvr_platform.types import Allocation


class VipAllocator:
    """Predictor and solver of a run, and the moving average that predictions are compared with.

    Prompts are named by their row of `embeddings`, float32 [Q, D]; `sources` has a name for each.
    A numerical failure of fit or solver never stops a run: counts are then uniform, and the
    allocation says why.
    """

    def __init__(self, config: VipConfig, embeddings: np.ndarray, sources: Sequence[str]) -> None:
        if len(sources) != len(embeddings):
            raise ValueError(f"{len(sources)} sources for {len(embeddings)} embeddings")
        _check_sources(config, sources)
        self._config = config
        self._sources = tuple(sources)
        self._predictor = build_predictor(config.predictor, embeddings)
        averages = MovingAverageConfig()
        self._baseline = MovingAverage(averages, len(embeddings))
        self._lengths = PooledMean(len(embeddings), averages.decay, averages.prior_rollouts)
        self._failure = ""

    def allocate(self, prompts: np.ndarray, budget: int) -> Allocation:
        """Spread `budget` rollouts over `prompts`, int64 [B]; evenly while nothing is observed.

        Raises ConfigError when the budget does not fit the bounds; constraints that this step's
        prompts cannot meet are a fallback.
        """
        config = self._config
        check_budget(
            len(prompts), budget, config.min_rollouts, config.max_rollouts, config.objective
        )
        baseline = belief = self._baseline.predict(prompts)
        fallback = self._failure
        counts = uniform(len(prompts), budget)
        try:
            belief = self._predictor.predict(prompts)
            if not fallback:
                counts = self._solve(belief, prompts, budget)
        except NumericalError as error:
            fallback = fallback or error.got
        expected = expected_collapse(belief.nodes, belief.weights, counts)
        return Allocation(counts, belief.mean, baseline.mean, expected, fallback)

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """Learn from one step: rewards on [0, 1] summed, float64 [B], of counts int64 [B].

        A fit that fails makes allocations uniform until one succeeds again.
        """
        self._baseline.observe(prompts, successes, counts)
        try:
            self._predictor.observe(prompts, successes, counts)
            self._failure = ""
        except NumericalError as error:
            self._failure = error.got

    def observe_lengths(self, prompts: np.ndarray, tokens: np.ndarray, counts: np.ndarray) -> None:
        """One step's completion tokens, summed over counts int64 [B] rollouts; float64 [B].

        Only a `token_budget` needs them.
        """
        self._lengths.add(prompts, tokens, counts)

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to go on bit for bit."""
        return joined(
            predictor=self._predictor.state(),
            baseline=self._baseline.state(),
            lengths=self._lengths.state(),
            fit={"failure": np.array(self._failure)},
        )

    def restore(self, state: State) -> None:
        """Go on from `state`. Raises InputError for another prompt count or embedding size."""
        self._predictor.restore(part(state, "predictor"))
        self._baseline.restore(part(state, "baseline"))
        self._lengths.restore(part(state, "lengths"))
        fit = part(state, "fit")
        check_shapes(fit, {"failure": ()})
        self._failure = str(fit["failure"])

    def _solve(self, belief: Belief, prompts: np.ndarray, budget: int) -> np.ndarray:
        config = self._config
        low, high, objective = config.min_rollouts, config.max_rollouts, config.objective
        match config.solver:
            case ClosedFormSolver():
                return closed_form(belief, budget, low, high, objective)
            case GreedySolver():
                return greedy(belief, budget, low, high, objective)
            case CvxpySolver(constraints=constraints, deadline_s=deadline_s):
                # cvxpy takes seconds to import: only where it is used.
                from rlvr_platform.allocation.convex import linear_constraints, solve_convex

                sources = [self._sources[q] for q in prompts]
                tokens = self._lengths.at(prompts)
                if np.isnan(tokens).any() and any(isinstance(c, TokenBudget) for c in constraints):
                    raise NumericalError("no completion length is known yet for token_budget")
                limits = linear_constraints(constraints, budget, sources, tokens)
                try:
                    return solve_convex(belief, budget, low, high, objective, limits, deadline_s)
                except ConfigError as error:
                    # Which prompts a step has is chance: one that cannot meet them is no reason
                    # to end a run.
                    raise NumericalError(error.got) from None


def _check_sources(config: VipConfig, sources: Sequence[str]) -> None:
    solver, known = config.solver, set(sources)
    if not isinstance(solver, CvxpySolver):
        return
    for constraint in solver.constraints:
        if isinstance(constraint, SourceShare) and constraint.source not in known:
            raise ConfigError(
                f"allocator.solver.constraints names the source {constraint.source}",
                f"one of {', '.join(sorted(known))}",
            )
