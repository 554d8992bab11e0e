import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.overlong import masked_rollouts, overlong_penalty, shaped_rewards
from rlvr_platform.config.algorithm import OverlongKept, OverlongMasked, OverlongPenalised
from rlvr_platform.types import Finish


def test_penalty_by_hand_with_dapo_s_limits():
    lengths = np.array([1, 16384, 16385, 17408, 18432, 20479, 20480, 20481], np.int32)
    expected = [0, 0, -1 / 4096, -0.25, -0.5, -4095 / 4096, -1, -1]
    got = overlong_penalty(lengths, 20480, 4096)
    assert got.dtype == np.float64 and got.tolist() == expected


limits = st.integers(1, 5000).flatmap(lambda top: st.tuples(st.just(top), st.integers(1, top)))
lengths = st.lists(st.integers(1, 6000), min_size=1, max_size=20).map(
    lambda values: np.array(values, np.int32)
)


@given(lengths, limits)
def test_penalty_equals_the_paper_s_three_cases(lengths, limits):
    top, cache = limits

    def paper(length):
        if length <= top - cache:
            return 0.0
        return ((top - cache) - length) / cache if length <= top else -1.0

    assert overlong_penalty(lengths, top, cache).tolist() == [paper(n) for n in lengths.tolist()]


@given(lengths, limits)
def test_penalty_never_rises_with_length(lengths, limits):
    penalty = overlong_penalty(np.sort(lengths), *limits)
    assert (np.diff(penalty) <= 0).all() and (penalty >= -1).all() and (penalty <= 0).all()


@pytest.mark.parametrize("cache", [0, -1, 11])
def test_a_cache_that_is_not_part_of_the_limit_is_refused(cache):
    with pytest.raises(ValueError, match=r"1\.\.10"):
        overlong_penalty(np.array([3]), 10, cache)


REWARDS, LENGTHS = np.array([1.0, 0.0, np.nan, 1.0]), np.array([4, 8, 8, 10], np.int32)


def test_penalised_rewards_by_hand_keep_missing_verdicts_missing():
    got = shaped_rewards(REWARDS, LENGTHS, 10, OverlongPenalised(cache=4, weight=0.6))
    assert got == pytest.approx([1.0, -0.3, np.nan, 0.4], nan_ok=True)


@pytest.mark.parametrize("overlong", [OverlongKept(), OverlongMasked()])
def test_only_a_penalty_changes_rewards(overlong):
    assert np.array_equal(shaped_rewards(REWARDS, LENGTHS, 10, overlong), REWARDS, equal_nan=True)


def test_the_mask_takes_what_the_limit_cut_and_nothing_else():
    finish = np.array([Finish.STOP, Finish.LENGTH, Finish.ABORT, Finish.LENGTH], np.uint8)
    assert masked_rollouts(finish, OverlongMasked()).tolist() == [False, True, False, True]
    for other in (OverlongKept(), OverlongPenalised(cache=1)):
        assert masked_rollouts(finish, other).tolist() == [False] * 4
