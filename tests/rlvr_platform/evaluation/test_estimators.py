from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.evaluation.estimators import avg_at_k, bootstrap, pass_at_k


@st.composite
def counts(draw):
    n = draw(st.integers(1, 8))
    return draw(st.integers(0, n)), n, draw(st.integers(1, n))


@given(counts())
def test_pass_at_k_is_the_share_of_all_draws_that_hold_a_right_completion(case):
    c, n, k = case
    right = [True] * c + [False] * (n - c)
    draws = list(combinations(right, k))
    expected = sum(any(draw) for draw in draws) / len(draws)
    assert pass_at_k(np.array([c]), np.array([n]), k)[0] == pytest.approx(expected, abs=1e-12)


def test_pass_at_k_equals_its_formula_where_binomials_are_huge():
    c, n, k = np.array([0, 1, 20, 3999, 4096]), 4096, 512
    expected = [1 - comb(n - int(x), k) / comb(n, k) for x in c]
    assert pass_at_k(c, np.array(n), k) == pytest.approx(expected, abs=1e-12)


@given(counts())
def test_one_draw_passes_as_often_as_the_average(case):
    c, n = np.array(case[:1]), np.array(case[1:2])
    assert pass_at_k(c, n, 1) == pytest.approx(avg_at_k(c, n))


def test_prompts_may_have_different_numbers_of_samples():
    assert avg_at_k(np.array([1, 3]), np.array([2, 4])).tolist() == [0.5, 0.75]
    assert pass_at_k(np.array([1, 0]), np.array([2, 4]), 2).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("c", "n", "k"), [(1, 0, 1), (-1, 2, 1), (3, 2, 1), (1, 2, 3), (1, 2, 0), (0, 0, 1)]
)
def test_impossible_counts_are_refused(c, n, k):
    with pytest.raises(ValueError):
        pass_at_k(np.array([c]), np.array([n]), k)


def test_a_prompt_without_samples_has_no_average():
    with pytest.raises(ValueError, match="at least 1"):
        avg_at_k(np.array([0]), np.array([0]))


def test_the_interval_holds_the_mean_and_repeats_with_its_seed():
    values = np.random.default_rng(0).random(200)
    first = bootstrap(values, seed=3)
    assert first == bootstrap(values, seed=3) != bootstrap(values, seed=4)
    assert first.value == pytest.approx(values.mean())
    assert first.low < first.value < first.high


def test_equal_values_leave_no_doubt():
    estimate = bootstrap(np.full(50, 0.25), seed=0)
    assert (estimate.value, estimate.low, estimate.high) == (0.25, 0.25, 0.25)


def test_the_width_agrees_with_the_normal_approximation():
    values = (np.arange(400) % 4 == 0).astype(float)
    estimate = bootstrap(values, seed=0)
    expected = 2 * 1.96 * np.sqrt(0.25 * 0.75 / 400)
    assert estimate.high - estimate.low == pytest.approx(expected, rel=0.1)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10))
def test_about_95_of_100_intervals_hold_the_truth(seed):
    rng = np.random.default_rng(seed)
    draws = [bootstrap(rng.random(100) < 0.4, seed=i, resamples=300) for i in range(100)]
    assert sum(e.low <= 0.4 <= e.high for e in draws) >= 85


def test_an_estimate_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one prompt"):
        bootstrap(np.array([]), seed=0)
