import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.verifiers.pace import Pace

LEAST_S = 0.01


def patience(seconds, unfinished=0, deadline_s=5.0):
    """After these times, in a fixed random order; 128 of them at most."""
    pace, order = Pace(deadline_s), np.random.default_rng(0)
    for time in order.permutation([*seconds, *[math.inf] * unfinished]):
        pace.finished(time) if time < math.inf else pace.unfinished()
    return pace.patience_s


def test_nothing_makes_way_before_anything_is_known_or_while_almost_nothing_ends():
    assert patience([0.001] * 31) == math.inf
    assert patience([0.001] * 15, unfinished=113) == math.inf
    assert patience([0.001] * 16, unfinished=112) == LEAST_S


@pytest.mark.parametrize("unfinished", [0, 8, 32, 96])
def test_patience_is_a_quarter_more_than_like_items_take_however_many_hang(unfinished):
    assert patience([0.010] * (128 - unfinished), unfinished) == pytest.approx(0.0125)


def test_no_item_makes_way_for_less_than_the_cost_of_a_process():
    assert patience([1e-5] * 96, unfinished=32) == LEAST_S


def test_slow_items_that_do_end_are_waited_for_when_judging_them_twice_costs_too_much():
    mixture = [0.0001] * 96 + [0.020] * 32
    assert patience(mixture) >= 0.025
    assert patience(mixture, unfinished=0, deadline_s=0.1) >= 0.025


def test_slow_items_make_way_where_endless_ones_take_most_of_the_time_anyway():
    assert patience([0.0001] * 96 + [0.020] * 16, unfinished=16) == LEAST_S


@pytest.mark.parametrize("seed", range(5))
def test_of_widely_spread_times_only_the_longest_make_way(seed):
    times = np.random.default_rng(seed).exponential(0.1, 128)
    assert np.mean(times > patience(times)) < 0.05


def a_quarter_made_way():
    pace = Pace(5.0)
    for i in range(128):
        pace.finished(0.0001) if i % 4 else pace.unfinished()
    assert pace.patience_s == LEAST_S
    return pace


def news(pace, count=32):
    for _ in range(count):
        pace.finished(0.0001)


def test_what_one_that_made_way_needed_later_the_others_are_taken_to_need_too():
    pace = a_quarter_made_way()
    pace.finished_second(0.020)
    news(pace)
    assert pace.patience_s == pytest.approx(0.025)


def test_what_made_way_again_is_taken_to_be_endless_until_it_ends():
    pace = a_quarter_made_way()
    pace.unfinished_second()
    news(pace)
    assert pace.patience_s == LEAST_S
    pace.finished_last(0.15)
    news(pace)
    assert pace.patience_s == pytest.approx(0.1875)


@pytest.mark.parametrize(("seconds", "at_hand"), [(0.01, 2), (0.00025, 4), (0.00001, 8)])
def test_of_quick_items_a_worker_has_a_millisecond_at_hand(seconds, at_hand):
    pace = Pace(5.0)
    assert pace.at_hand == 2
    for _ in range(32):
        pace.finished(seconds)
    assert pace.at_hand == at_hand


def test_patience_follows_a_change_of_the_items():
    pace = Pace(5.0)
    for seconds in [0.001] * 128 + [0.5] * 128:
        pace.finished(seconds) if seconds < pace.patience_s else pace.unfinished()
    assert pace.patience_s == math.inf  # Everything made way, so nothing does now.
    for _ in range(32):
        pace.finished(0.5)
    assert pace.patience_s == pytest.approx(0.625)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-6, 4.0), min_size=32, max_size=128), st.integers(0, 64))
def test_starting_again_never_adds_more_than_a_tenth_to_the_work(seconds, unfinished):
    pace = Pace(5.0)
    for time in [math.inf] * unfinished + seconds:
        pace.finished(time) if time < math.inf else pace.unfinished()
    taught = ([math.inf] * unfinished + seconds)[: (unfinished + len(seconds)) // 32 * 32][-128:]
    ended = [time for time in taught if time < math.inf]
    if pace.patience_s < 1.25 * max(ended, default=0.0):
        again = sum(time > pace.patience_s for time in taught)
        work = sum(min(time, 5.0) for time in taught)
        assert again * (pace.patience_s + LEAST_S) <= 0.1 * work * (1 + 1e-9)
