import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.allocation.calibration import brier, reliability

cases = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20
)


def split(case):
    p, a, b = (np.array(column) for column in zip(*case, strict=True))
    return p, np.minimum(a, b).astype(float), np.maximum(a, b)


@given(cases)
def test_brier_is_the_mean_square_over_single_rollouts(case):
    p, successes, counts = split(case)
    single = [
        (q - (i < s)) ** 2 for q, s, n in zip(p, successes, counts, strict=True) for i in range(n)
    ]
    if single:
        assert brier(p, successes, counts) == pytest.approx(np.mean(single), abs=1e-12)
    else:
        assert np.isnan(brier(p, successes, counts))


@given(cases, st.integers(1, 12))
def test_bins_hold_every_rollout_once_with_its_bins_mean(case, bins):
    p, successes, counts = split(case)
    result = reliability(p, successes, counts, bins)
    assert result.counts.sum() == counts.sum()
    held = result.counts > 0
    assert (result.observed[held] @ result.counts[held]) == pytest.approx(successes.sum())
    assert (result.predicted[held] @ result.counts[held]) == pytest.approx(p @ counts)
    edges = np.arange(bins + 1) / bins
    assert (result.predicted[held] >= edges[:-1][held] - 1e-9).all()
    assert (result.predicted[held] <= edges[1:][held] + 1e-9).all()


def test_the_true_probability_has_the_least_expected_brier_score():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=4000)
    counts = np.full(4000, 8)
    successes = rng.binomial(8, p).astype(float)
    assert brier(p, successes, counts) < brier(np.clip(p + 0.1, 0, 1), successes, counts)
    assert brier(p, successes, counts) < brier(np.clip(p - 0.1, 0, 1), successes, counts)


@pytest.mark.parametrize(
    ("p", "successes", "counts"),
    [([np.nan], [1.0], [2]), ([1.1], [1.0], [2]), ([0.5], [np.nan], [2]), ([0.5], [3.0], [2])],
)
def test_what_is_no_probability_or_outcome_is_refused(p, successes, counts):
    arrays = (np.array(p), np.array(successes), np.array(counts))
    with pytest.raises(ValueError):
        brier(*arrays)
    with pytest.raises(ValueError):
        reliability(*arrays)
