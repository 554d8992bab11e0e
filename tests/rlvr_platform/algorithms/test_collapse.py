from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.advantages import has_signal
from rlvr_platform.algorithms.collapse import (
    collapse_probability,
    collapse_rate_by_group,
    collapse_rate_by_rollout,
    collapsed,
    expected_collapse,
    expected_collapse_by_rollout,
    flat_statistics,
    group_statistics,
)

GROUPS = [np.array([1.0, 1, 1, 1, 1, 1]), np.array([0.0, 1]), np.array([0.0, 0]), np.array([0.5])]
rewards = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.1e-6]) | st.floats(-10, 10)
groups = st.lists(st.lists(rewards, max_size=9).map(np.array), max_size=12)


def test_collapsed_groups_are_those_without_a_difference():
    assert collapsed(GROUPS).tolist() == [True, False, True, True]


def test_groups_collapse_below_a_population_std_of_1e_6():
    assert collapsed([np.array([0.0, gap]) for gap in (1.9e-6, 2.1e-6, 1e-3)]).tolist() == [
        True,
        False,
        False,
    ]


@given(groups)
def test_collapsed_is_the_absence_of_signal_in_every_group(some):
    assert collapsed(some).tolist() == [not has_signal(group) for group in some]


def test_rate_by_group_counts_groups_and_rate_by_rollout_counts_rollouts():
    assert collapse_rate_by_group(GROUPS) == 3 / 4
    assert collapse_rate_by_rollout(GROUPS) == pytest.approx(9 / 11)


def test_groups_without_any_reward_are_not_measured():
    nothing = [np.array([])] * 3
    assert collapse_rate_by_group(GROUPS + nothing) == 3 / 4
    assert collapse_rate_by_rollout(GROUPS + nothing) == pytest.approx(9 / 11)
    assert group_statistics(GROUPS + nothing).mean_reward == group_statistics(GROUPS).mean_reward


def test_rates_of_nothing_are_not_a_number_rather_than_zero():
    assert np.isnan(collapse_rate_by_group([np.array([])]))
    assert np.isnan(collapse_rate_by_rollout([]))
    assert np.isnan(group_statistics([]).mean_reward)
    assert np.isnan(expected_collapse(np.empty((0, 1)), np.ones(1), np.empty(0, np.int64)))


@given(groups)
def test_statistics_are_those_of_each_group_alone(some):
    found = group_statistics(some)
    assert found.size.tolist() == [len(group) for group in some]
    means = [group.mean() if len(group) else np.nan for group in some]
    assert found.mean == pytest.approx(means, abs=1e-12, nan_ok=True)


@given(groups)
def test_groups_in_one_array_are_measured_like_a_list_of_arrays(some):
    flat = np.array([reward for group in some for reward in group])
    together = flat_statistics(flat, np.array([len(group) for group in some], np.int64))
    apart = group_statistics(some)
    np.testing.assert_array_equal(together.mean, apart.mean)
    assert together.collapsed.tolist() == apart.collapsed.tolist()


def test_mean_reward_counts_prompts_not_rollouts():
    # Six rollouts of the first prompt, two each of the next two, one of the last.
    assert group_statistics(GROUPS).mean_reward == (1.0 + 0.5 + 0.0 + 0.5) / 4


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match="not finite"):
        collapse_rate_by_group([*GROUPS, np.array([1.0, bad])])


def enumerated_collapse(p: float, n: int) -> float:
    """Sum of the probabilities of all outcomes of n rollouts in which all agree."""
    outcomes = product([0, 1], repeat=n)
    return sum(p ** sum(o) * (1 - p) ** (n - sum(o)) for o in outcomes if len(set(o)) == 1)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 7)), min_size=1),
    st.floats(0, 1),
)
def test_expected_collapse_is_the_enumeration_of_all_outcomes(prompts, weight):
    nodes = np.array([[p, q] for p, q, _ in prompts])
    counts, weights = np.array([n for *_, n in prompts]), np.array([weight, 1 - weight])
    exact = np.array(
        [
            weight * enumerated_collapse(p, n) + (1 - weight) * enumerated_collapse(q, n)
            for p, q, n in prompts
        ]
    )
    assert collapse_probability(nodes, weights, counts) == pytest.approx(exact)
    assert expected_collapse(nodes, weights, counts) == pytest.approx(exact.mean())
    assert expected_collapse_by_rollout(nodes, weights, counts) == pytest.approx(
        (counts * exact).sum() / counts.sum()
    )


def test_expected_rates_are_what_the_measured_rates_average_to():
    rng, p, counts = np.random.default_rng(0), np.array([0.1, 0.5, 0.9]), np.array([2, 4, 8])
    runs = [
        [(rng.random(n) < q).astype(float) for q, n in zip(p, counts, strict=True)]
        for _ in range(4000)
    ]
    point = (p[:, None], np.ones(1), counts)
    by_group = np.mean([collapse_rate_by_group(run) for run in runs])
    by_rollout = np.mean([collapse_rate_by_rollout(run) for run in runs])
    # Standard errors are below 0.005.
    assert expected_collapse(*point) == pytest.approx(by_group, abs=0.02)
    assert expected_collapse_by_rollout(*point) == pytest.approx(by_rollout, abs=0.02)


def test_a_single_rollout_always_collapses_and_a_certain_prompt_does_at_any_count():
    chance = collapse_probability(
        np.array([[0.3], [0.0], [1.0]]), np.ones(1), np.array([1, 64, 64])
    )
    assert chance == pytest.approx([1, 1, 1])


@given(st.floats(0.01, 0.99), st.integers(1, 30))
def test_more_rollouts_collapse_less_and_right_and_wrong_are_alike(p, n):
    one = collapse_probability(np.array([[p], [p], [1 - p]]), np.ones(1), np.array([n, n + 1, n]))
    assert one[0] > one[1]
    assert one[0] == pytest.approx(one[2])


@pytest.mark.parametrize(
    ("p", "weights", "counts", "message"),
    [
        ([[1.1]], [1.0], [4], "outside"),
        ([[np.nan]], [1.0], [4], "outside"),
        ([[0.5]], [0.9], [4], "sum to 1"),
        ([[0.5]], [1.0], [0], "rollout"),
        ([[0.5, 0.5]], [1.0], [4], "counts x weights"),
    ],
)
def test_impossible_predictions_are_refused(p, weights, counts, message):
    with pytest.raises(ValueError, match=message):
        expected_collapse(np.array(p), np.array(weights), np.array(counts))
