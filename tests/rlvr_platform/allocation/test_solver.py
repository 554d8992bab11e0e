import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.allocation.objectives import OBJECTIVES
from rlvr_platform.allocation.solver import check_budget, closed_form, continuous_optimum, greedy
from rlvr_platform.errors import ConfigError

EXAMPLE = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
SOLVERS = (closed_form, greedy)
PROBABILITY = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-6, 0.25, 0.5, 0.75, 1.0]))


def random_problem(rng, name, prompts=12, span=12):
    """A feasible instance: beliefs spread evenly, at the ends, or on a grid that makes ties."""
    size = int(rng.integers(1, prompts + 1))
    nodes = int(rng.choice([1, 3]))
    shape = (size, nodes)
    ends = np.clip(rng.beta(0.2, 0.2, shape), 1e-6, 1 - 1e-6)
    p = [rng.random(shape), ends, rng.integers(0, 9, shape) / 8]
    lower = OBJECTIVES[name].minimum + int(rng.integers(0, 3))
    upper = lower + int(rng.integers(0, span + 1))
    budget = int(rng.integers(size * lower, size * upper + 1))
    return Belief(p[rng.integers(3)], np.full(nodes, 1 / nodes)), budget, lower, upper, name


@st.composite
def problems(draw, names=tuple(OBJECTIVES)):
    name = draw(st.sampled_from(names))
    p = draw(st.lists(PROBABILITY, min_size=1, max_size=30))
    lower = OBJECTIVES[name].minimum + draw(st.integers(0, 3))
    upper = lower + draw(st.integers(0, 40))
    budget = draw(st.integers(len(p) * lower, len(p) * upper))
    return p, budget, lower, upper, name


@pytest.mark.parametrize("solve", SOLVERS)
@pytest.mark.parametrize("name", ["dr_grpo", "rloo"])
def test_the_worked_example(solve, name):
    counts = solve(certain(EXAMPLE), 56, 4, 16, name)
    assert counts.tolist() == [4, 7, 11, 12, 11, 7, 4]
    assert counts.dtype == np.int64


@given(problems())
def test_counts_sum_to_the_budget_within_the_bounds(problem):
    p, budget, lower, upper, name = problem
    counts = closed_form(certain(p), budget, lower, upper, name)
    assert counts.sum() == budget
    assert counts.min() >= lower
    assert counts.max() <= upper


@given(problems(names=("dr_grpo", "rloo", "grpo_std")))
def test_a_prompt_with_more_reward_variance_gets_no_fewer(problem):
    p, budget, lower, upper, name = problem
    belief = certain(p)
    counts = closed_form(belief, budget, lower, upper, name)
    a = belief.variance_term
    for q, r in itertools.combinations(range(len(p)), 2):
        if a[q] > a[r] + 1e-6:
            assert counts[q] >= counts[r]


@given(problems())
def test_p_and_its_complement_get_the_same(problem):
    p, *rest = problem
    flipped = [1 - x for x in p]
    assert (closed_form(certain(p), *rest) == closed_form(certain(flipped), *rest)).all()


@pytest.mark.parametrize("solve", SOLVERS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_no_allocation_of_a_small_instance_is_better(solve, name):
    rng = np.random.default_rng(1)
    for _ in range(40):
        belief, budget, lower, upper, _ = problem = random_problem(rng, name, prompts=4, span=5)
        every = itertools.product(range(lower, upper + 1), repeat=belief.size)
        costs = [
            OBJECTIVES[name].cost(belief, np.array(n)).sum() for n in every if sum(n) == budget
        ]
        cost = OBJECTIVES[name].cost(belief, solve(*problem)).sum()
        assert cost == pytest.approx(min(costs), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_closed_form_equals_the_greedy_oracle_on_a_thousand_instances(name):
    rng = np.random.default_rng(2)
    for _ in range(1000):
        problem = random_problem(rng, name)
        assert (closed_form(*problem) == greedy(*problem)).all()


def test_rounding_by_floor_and_remainder_alone_would_not_be_optimal():
    # Ten prompts near 3.7 rollouts beside twenty near 15: all ten deserve the fourth.
    hard = (1 - np.sqrt(1 - 4 * 0.25 * (2.7 / 14.05) ** 2)) / 2
    belief, budget = certain([hard] * 10 + [0.5] * 20), 338
    rloo = OBJECTIVES["rloo"]
    floor = np.floor(continuous_optimum(belief, budget, 2, 40, "rloo")).astype(int)
    while floor.sum() < budget:
        floor[np.argmax(rloo.gain(belief, floor))] += 1
    counts = closed_form(belief, budget, 2, 40, "rloo")
    assert (counts == greedy(belief, budget, 2, 40, "rloo")).all()
    assert rloo.value(belief, counts) < rloo.value(belief, floor)


def test_counts_far_from_the_even_split_are_found():
    belief = certain([0.5] * 3 + [0.001] * 3)
    problem = (belief, 1500, 1, 2000, "mixed_prob")
    counts = closed_form(*problem)
    assert (counts == greedy(*problem)).all()
    assert counts.max() - counts.min() > 300


@pytest.mark.parametrize("solve", SOLVERS)
@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("p", [[0.0] * 5, [1.0, 0.0, 1.0, 0.0, 1.0], [1e-300] * 5])
def test_prompts_without_any_gain_share_evenly(solve, name, p):
    assert solve(certain(p), 23, 3, 16, name).tolist() == [5, 5, 5, 4, 4]


@pytest.mark.parametrize("solve", SOLVERS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_tie_goes_to_the_lower_index_whatever_the_noise(solve, name):
    # 1 - p differs from q in the last digits, in either direction.
    p = [0.9, 0.1, 1 - 0.9, 1 - 0.1, 0.1]
    assert solve(certain(p), 27, 5, 7, name).tolist() == [6, 6, 5, 5, 5]


@given(problems(names=("dr_grpo", "rloo")))
def test_the_relaxed_counts_sum_up_and_their_unclipped_slopes_agree(problem):
    p, budget, lower, upper, name = problem
    counts = continuous_optimum(certain(p), budget, lower, upper, name)
    assert counts.sum() == pytest.approx(budget, rel=1e-9)
    assert counts.min() >= lower
    assert counts.max() <= upper
    a = certain(p).variance_term
    free = (counts > lower + 1e-6) & (counts < upper - 1e-6) & (a > 1e-12)
    slopes = a[free] * OBJECTIVES[name].slope(counts[free])
    assert free.sum() < 2 or slopes.max() <= slopes.min() * (1 + 1e-6)


@given(problems(names=("dr_grpo", "rloo")))
def test_the_relaxation_is_a_lower_bound_of_the_whole_counts(problem):
    p, budget, lower, upper, name = problem
    belief, objective = certain(p), OBJECTIVES[name]
    relaxed = objective.value(belief, continuous_optimum(belief, budget, lower, upper, name))
    whole = objective.value(belief, closed_form(belief, budget, lower, upper, name))
    assert relaxed <= whole * (1 + 1e-9) + 1e-14


def test_an_objective_without_closed_form_has_no_relaxed_counts():
    with pytest.raises(ValueError, match="mixed_prob"):
        continuous_optimum(certain(EXAMPLE), 56, 4, 16, "mixed_prob")


@pytest.mark.parametrize("budget", [27, 113])
@pytest.mark.parametrize("solve", [*SOLVERS, continuous_optimum])
def test_an_infeasible_budget_is_refused_with_the_legal_range(solve, budget):
    with pytest.raises(ConfigError, match="from 28 to 112") as refused:
        solve(certain(EXAMPLE), budget, 4, 16, "rloo")
    assert refused.value.fix


@pytest.mark.parametrize("budget", [28, 112])
def test_both_ends_of_the_legal_range_are_solved(budget):
    for name in OBJECTIVES:
        counts = closed_form(certain(EXAMPLE), budget, 4, 16, name)
        assert counts.tolist() == [budget // 7] * 7


def test_a_minimum_above_the_maximum_is_refused():
    with pytest.raises(ConfigError, match="minimum of 9 and a maximum of 8"):
        check_budget(7, 56, 9, 8, "rloo")


@pytest.mark.parametrize(
    ("name", "least"), [("dr_grpo", 3), ("rloo", 2), ("grpo_std", 3), ("mixed_prob", 1)]
)
def test_a_minimum_below_that_of_the_objective_is_refused(name, least):
    check_budget(7, 56, least, 16, name)
    with pytest.raises(ConfigError, match=f"at least {least}"):
        check_budget(7, 56, least - 1, 16, name)
