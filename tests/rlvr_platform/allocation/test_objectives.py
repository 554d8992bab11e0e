import itertools
from fractions import Fraction

import numpy as np
import pytest

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.allocation.objectives import OBJECTIVES, VarianceObjective

PROBABILITIES = (0.0, 1e-6, 0.02, 0.3, 0.5, 0.9, 0.999999, 1.0)


def exact_cost(name: str, p: Fraction, n: int) -> Fraction:
    a, mixed = p * (1 - p), 1 - p**n - (1 - p) ** n
    return {
        "dr_grpo": a * Fraction(n - 1, n * n),
        "rloo": a / max(n - 1, Fraction(1, 10**9)),
        "grpo_std": mixed / n,
        "mixed_prob": -mixed,
    }[name]


def advantages(name: str, rewards: np.ndarray) -> np.ndarray:
    centred, n = rewards - rewards.mean(), len(rewards)
    if name == "dr_grpo":
        return centred
    if name == "rloo":
        return centred * n / (n - 1)
    return centred / rewards.std() if rewards.std() > 0 else centred


def enumerated_variance(name: str, p: float, n: int) -> float:
    """Var[(1/n) sum_i A_i s_i] over all outcomes of n rewards B(p) and n scores of +-1."""
    first = second = 0.0
    scores = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    for outcome in itertools.product((0.0, 1.0), repeat=n):
        rewards = np.array(outcome)
        weight = p ** rewards.sum() * (1 - p) ** (n - rewards.sum())
        estimates = scores @ advantages(name, rewards) / n
        first += weight * estimates.mean()
        second += weight * (estimates**2).mean()
    return second - first**2


@pytest.mark.parametrize("name", ["dr_grpo", "rloo", "grpo_std"])
@pytest.mark.parametrize("n", [2, 3, 5, 7])
def test_the_cost_is_the_estimator_variance_by_exact_enumeration(name, n):
    p = [0.0, 0.1, 0.35, 0.5, 0.8]
    expected = [enumerated_variance(name, x, n) for x in p]
    assert OBJECTIVES[name].cost(certain(p), np.full(5, n)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_mixed_prob_is_the_enumerated_chance_of_both_outcomes(n):
    p = 0.3
    mixed = sum(
        p ** sum(r) * (1 - p) ** (n - sum(r))
        for r in itertools.product((0, 1), repeat=n)
        if 0 < sum(r) < n
    )
    assert OBJECTIVES["mixed_prob"].value(certain([p]), np.array([n])) == pytest.approx(mixed)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_cost_and_gain_equal_exact_arithmetic(name):
    objective, belief = OBJECTIVES[name], certain(PROBABILITIES)
    counts = np.arange(objective.minimum, 65)
    table = np.tile(counts, (len(PROBABILITIES), 1))
    exact = [
        [exact_cost(name, Fraction(p), int(n)) for n in (*counts, counts[-1] + 1)]
        for p in PROBABILITIES
    ]
    gains = [[float(c - d) for c, d in itertools.pairwise(row)] for row in exact]
    costs = [[float(c) for c in row[:-1]] for row in exact]
    assert objective.cost(belief, table) == pytest.approx(np.array(costs), rel=1e-9, abs=1e-15)
    assert objective.gain(belief, table) == pytest.approx(np.array(gains), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gains_never_rise_nor_fall_below_zero_from_the_minimum_on(name):
    objective, p = OBJECTIVES[name], np.linspace(0, 1, 201)
    table = np.tile(np.arange(objective.minimum, 200), (len(p), 1))
    gains = objective.gain(certain(p), table)
    assert gains.min() >= -1e-16
    assert np.diff(gains, axis=1).max() <= 1e-16


@pytest.mark.parametrize("name", ["dr_grpo", "grpo_std"])
def test_below_the_minimum_a_gain_rises(name):
    objective = OBJECTIVES[name]
    before, after = objective.gain(certain([0.4]), np.array([[2, 3]]))[0]
    assert objective.minimum == 3
    assert before < after


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_uncertain_cost_is_the_average_over_its_nodes(name):
    objective, weights = OBJECTIVES[name], np.array([0.2, 0.5, 0.3])
    nodes, n = np.random.default_rng(0).random((4, 3)), np.array([3, 4, 7, 12])
    belief = Belief(nodes, weights)
    for method in (objective.cost, objective.gain):
        average = sum(
            w * method(certain(column), n) for w, column in zip(weights, nodes.T, strict=True)
        )
        assert method(belief, n) == pytest.approx(average)
        assert method(belief, n[:, None])[:, 0] == pytest.approx(average)


@pytest.mark.parametrize("name", ["dr_grpo", "rloo"])
def test_count_at_inverts_the_slope_of_the_cost(name):
    objective = OBJECTIVES[name]
    assert isinstance(objective, VarianceObjective)
    n = np.linspace(objective.minimum + 0.01, 500, 1000)
    step = 1e-4
    numeric = (objective.shape(n - step) - objective.shape(n + step)) / (2 * step)
    assert objective.slope(n) == pytest.approx(numeric, rel=1e-5)
    assert objective.count_at(objective.slope(n)) == pytest.approx(n, rel=1e-9)
    assert objective.count_at(np.array([2.0])) == pytest.approx(objective.minimum)
