import itertools

import numpy as np
import pytest

from rlvr_platform.allocation.belief import certain
from rlvr_platform.allocation.convex import (
    LinearConstraint,
    linear_constraints,
    relaxed_optimum,
    solve_convex,
)
from rlvr_platform.allocation.objectives import OBJECTIVES
from rlvr_platform.allocation.solver import closed_form, continuous_optimum
from rlvr_platform.config.solver import SourceShare, TokenBudget
from rlvr_platform.errors import ConfigError, NumericalError

EXAMPLE = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)


def cost(name, belief, counts):
    return OBJECTIVES[name].cost(belief, counts).sum()


def random_problem(rng, name, prompts, lower=None):
    p = rng.random(int(rng.integers(1, prompts + 1)))
    lower = OBJECTIVES[name].minimum + int(rng.integers(0, 3)) if lower is None else lower
    upper = lower + int(rng.integers(1, 13))
    return certain(p), int(rng.integers(len(p) * lower, len(p) * upper + 1)), lower, upper, name


@pytest.mark.parametrize("name", ["dr_grpo", "rloo"])
@pytest.mark.parametrize("lower", [3, None])
def test_the_multiplier_reaches_the_same_continuous_optimum(name, lower):
    rng = np.random.default_rng(3)
    for _ in range(20):
        problem = random_problem(rng, name, 64, lower)
        ours = cost(name, problem[0], continuous_optimum(*problem))
        assert ours == pytest.approx(cost(name, problem[0], relaxed_optimum(*problem)), rel=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_without_constraints_it_is_the_optimal_allocation(name):
    rng = np.random.default_rng(4)
    for _ in range(8):
        belief, *rest = random_problem(rng, name, 24)
        counts = solve_convex(belief, *rest)
        assert counts.dtype == np.int64
        best = cost(name, belief, closed_form(belief, *rest))
        assert cost(name, belief, counts) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("name", ["dr_grpo", "rloo"])
def test_the_worked_example(name):
    assert solve_convex(certain(EXAMPLE), 56, 4, 16, name).tolist() == [4, 7, 11, 12, 11, 7, 4]


@pytest.mark.parametrize("name", OBJECTIVES)
def test_whole_counts_keep_every_constraint(name):
    rng = np.random.default_rng(5)
    for _ in range(6):
        size = 24
        belief, budget = certain(rng.random(size)), 8 * size
        sources = list(rng.choice(["a", "b", "c"], size))
        tokens = rng.uniform(50, 4000, size)
        cheap = 0.95 * float(tokens @ closed_form(belief, budget, 3, 16, name))
        share = sources.count("a") / size
        sections = (
            SourceShare(source="a", minimum=1.1 * share),
            SourceShare(source="b", maximum=0.95 * sources.count("b") / size),
            TokenBudget(tokens=cheap),
        )
        limits = linear_constraints(sections, budget, sources, tokens)
        counts = solve_convex(belief, budget, 3, 16, name, limits)
        of_source = {s: counts[np.array(sources) == s].sum() for s in "abc"}
        assert counts.sum() == budget
        assert counts.min() >= 3
        assert counts.max() <= 16
        assert of_source["a"] >= 1.1 * share * budget
        assert of_source["b"] <= sections[1].maximum * budget
        assert tokens @ counts <= cheap * (1 + 1e-9)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_constrained_counts_are_the_best_of_all_up_to_the_solvers_gap(name):
    rng = np.random.default_rng(6)
    every = np.array([n for n in itertools.product(range(3, 11), repeat=4) if sum(n) == 24])
    for _ in range(10):
        belief, tokens = certain(rng.random(4)), rng.uniform(1, 10, 4)
        wanted = tokens @ closed_form(belief, 24, 3, 10, name)
        limit = (wanted + (every @ tokens).min()) / 2
        best = min(cost(name, belief, n) for n in every[every @ tokens <= limit])
        constraint = LinearConstraint("tokens", tokens, -np.inf, limit)
        counts = solve_convex(belief, 24, 3, 10, name, [constraint])
        assert cost(name, belief, counts) - best <= 1e-3 * abs(best)


def test_whole_counts_far_from_the_relaxed_optimum_are_found():
    # Whole solutions of both equations lie (5, -9, 4) apart.
    coefficients = np.array([0.0, 4.0, 9.0])
    total = coefficients @ [10, 20, 11]
    equation = LinearConstraint("equation", coefficients, total, total)
    belief = certain([0.5, 0.5, 0.01])
    counts = solve_convex(belief, 41, 3, 40, "rloo", [equation])
    assert coefficients @ counts == total
    relaxed = relaxed_optimum(belief, 41, 3, 40, "rloo", [equation])
    assert abs(counts - relaxed).max() > 2


@pytest.mark.parametrize("p", [[0.0] * 4, [0.5], [1e-6, 0.5, 1.0]])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_degenerate_beliefs_are_solved(name, p):
    counts = solve_convex(certain(p), 5 * len(p), 3, 9, name)
    assert counts.sum() == 5 * len(p)
    assert counts.min() >= 3


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        (SourceShare(source="a", minimum=0.9), "source_share of a.*reach 4 to 16"),
        (SourceShare(source="absent", minimum=0.1), "source_share of absent.*reach 0 to 0"),
        (SourceShare(source="b", maximum=0.1), "source_share of b.*reach 40 to 52"),
        (TokenBudget(tokens=5000.0), "token_budget.*reach 5600 to 5600"),
    ],
)
def test_a_constraint_out_of_reach_is_refused_with_what_can_be_reached(constraint, message):
    limits = linear_constraints([constraint], 56, ["a"] + ["b"] * 6, np.full(7, 100.0))
    with pytest.raises(ConfigError, match=message):
        solve_convex(certain(EXAMPLE), 56, 4, 16, "rloo", limits)


def test_constraints_that_exclude_each_other_are_refused_by_name():
    first = LinearConstraint("first", np.array([1.0, 0, 0]), 10, np.inf)
    rest = LinearConstraint("rest", np.array([0, 1.0, 1.0]), 15, np.inf)
    with pytest.raises(ConfigError, match="together: first, rest"):
        solve_convex(certain([0.5] * 3), 24, 3, 16, "rloo", [first, rest])


def test_constraints_that_no_whole_counts_satisfy_are_refused():
    odd = LinearConstraint("odd", np.array([2.0, 2.0, 4.0]), 61, 61)
    with pytest.raises(ConfigError, match="whole numbers"):
        solve_convex(certain([0.5] * 3), 24, 3, 16, "rloo", [odd])


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_a_missed_deadline_is_a_numerical_error_that_says_what_was_left():
    belief = certain(np.linspace(0, 1, 200))
    with pytest.raises(NumericalError, match=r"CLARABEL .*it left"):
        solve_convex(belief, 1600, 4, 16, "dr_grpo", deadline_s=1e-9)


def test_a_program_too_large_to_build_is_refused():
    with pytest.raises(ConfigError, match="closed_form"):
        solve_convex(certain([0.5] * 100), 50_000, 3, 10_000, "mixed_prob")


def test_bounds_and_budget_are_checked_as_by_the_other_solvers():
    with pytest.raises(ConfigError, match="from 28 to 112"):
        solve_convex(certain(EXAMPLE), 20, 4, 16, "rloo")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_coefficient_that_is_not_finite_is_a_programming_error(bad):
    with pytest.raises(ValueError, match="tokens"):
        LinearConstraint("tokens", np.array([1.0, bad]), 0, 1)
