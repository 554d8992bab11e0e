import numpy as np
import pytest

from rlvr_platform.algorithms.collapse import (
    collapse_rate_by_group,
    collapse_rate_by_rollout,
    collapsed,
)

GROUPS = [np.array([1.0, 1, 1, 1, 1, 1]), np.array([0.0, 1]), np.array([0.0, 0]), np.array([0.5])]


def test_collapsed_groups_are_those_without_a_difference():
    assert collapsed(GROUPS).tolist() == [True, False, True, True]


def test_rate_by_group_counts_groups_and_rate_by_rollout_counts_rollouts():
    assert collapse_rate_by_group(GROUPS) == 3 / 4
    assert collapse_rate_by_rollout(GROUPS) == pytest.approx(9 / 11)


def test_groups_without_any_reward_are_not_measured():
    nothing = [np.array([])] * 3
    assert collapse_rate_by_group(GROUPS + nothing) == 3 / 4
    assert collapse_rate_by_rollout(GROUPS + nothing) == pytest.approx(9 / 11)


def test_rates_of_nothing_are_not_a_number_rather_than_zero():
    assert np.isnan(collapse_rate_by_group([np.array([])]))
    assert np.isnan(collapse_rate_by_rollout([]))
