import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.advantages import advantages, has_signal, normalise_batch

KINDS = ["grpo", "dr_grpo", "rloo", "reinforce_pp"]
rewards_with_signal = (
    st.lists(st.floats(-10, 10), min_size=2, max_size=32)
    .map(np.array)
    .filter(lambda rewards: np.std(rewards) > 1e-2)
)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        # mean 1/4, population variance 3/16
        ("grpo", np.array([3, -1, -1, -1]) / np.sqrt(3)),
        ("dr_grpo", [0.75, -0.25, -0.25, -0.25]),
        ("rloo", [1.0, -1 / 3, -1 / 3, -1 / 3]),
        ("reinforce_pp", [0.75, -0.25, -0.25, -0.25]),
    ],
)
def test_one_of_four_correct_by_hand(kind, expected):
    assert advantages(np.array([1.0, 0, 0, 0]), kind, 0.0) == pytest.approx(expected, abs=1e-15)


def test_grpo_divides_by_std_plus_eps():
    # mean 2, population std 1
    assert advantages(np.array([1.0, 3.0]), "grpo", 0.25) == pytest.approx([-0.8, 0.8])


@given(rewards_with_signal)
def test_rloo_is_reward_minus_mean_of_the_others(rewards):
    others = [np.delete(rewards, i).mean() for i in range(len(rewards))]
    assert advantages(rewards, "rloo", 0.0) == pytest.approx(rewards - others, abs=1e-9)


@given(rewards_with_signal, st.floats(0.1, 10), st.floats(-10, 10))
def test_grpo_is_invariant_to_affine_rewards(rewards, scale, shift):
    moved = advantages(scale * rewards + shift, "grpo", 0.0)
    assert moved == pytest.approx(advantages(rewards, "grpo", 0.0), abs=1e-8)


@given(rewards_with_signal, st.sampled_from(KINDS))
def test_advantages_sum_to_zero_and_keep_the_order_of_rewards(rewards, kind):
    result = advantages(rewards, kind, 1e-6)
    assert result.sum() == pytest.approx(0, abs=1e-9)
    assert (np.diff(result[np.argsort(rewards, kind="stable")]) >= 0).all()


@given(rewards_with_signal)
def test_grpo_has_unit_population_variance(rewards):
    assert advantages(rewards, "grpo", 0.0).var(ddof=0) == pytest.approx(1)


@pytest.mark.parametrize("rewards", [[1.0], [1.0, np.nan], [1.0, np.inf]])
def test_rewards_without_a_comparison_are_refused(rewards):
    with pytest.raises(ValueError, match="two or more finite"):
        advantages(np.array(rewards), "grpo", 1e-6)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([], False),
        ([1.0], False),
        ([0.1] * 7, False),
        ([0.0, 1.0], True),
        ([0.0, 2.1e-6], True),
        ([0.0, 1.9e-6], False),
    ],
)
def test_signal_starts_at_a_population_std_of_1e_6(rewards, expected):
    assert has_signal(np.array(rewards)) is expected


groups_with_signal = st.lists(rewards_with_signal, min_size=1, max_size=6)


def reinforce_pp(groups, std_eps=0.0):
    centred = [advantages(rewards, "reinforce_pp", std_eps) for rewards in groups]
    return normalise_batch(np.concatenate(centred), std_eps)


def test_two_groups_share_one_std_by_hand():
    # Centred: 3/4, -1/4 x 3 and 1/2, 1/2, -1/2, -1/2; mean square (3/4 + 1) / 8.
    result = reinforce_pp([np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 0, 0])])
    expected = np.array([3, -1, -1, -1, 2, 2, -2, -2]) / 4 / np.sqrt(7 / 32)
    assert result == pytest.approx(expected, abs=1e-15)


def test_a_batch_whose_groups_are_not_whole_is_centred():
    # mean 2, population std 1
    assert normalise_batch(np.array([1.0, 3.0]), 0.0).tolist() == [-1.0, 1.0]


def test_batch_std_has_eps_added():
    assert normalise_batch(np.array([-2.0, 2.0]), 0.5) == pytest.approx([-0.8, 0.8])


@given(groups_with_signal)
def test_batch_has_mean_zero_and_unit_population_variance(groups):
    result = reinforce_pp(groups)
    assert result.mean() == pytest.approx(0, abs=1e-8)
    assert result.var(ddof=0) == pytest.approx(1)


@given(groups_with_signal)
def test_one_factor_for_the_batch_keeps_the_proportions_between_whole_groups(groups):
    """Whole groups have mean zero already, so that only the scale is the batch's."""
    centred = np.concatenate([advantages(rewards, "dr_grpo", 0.0) for rewards in groups])
    assert reinforce_pp(groups) == pytest.approx(centred / centred.std(), abs=1e-7)


@given(groups_with_signal, st.floats(0.1, 10), st.floats(-10, 10))
def test_batch_normalisation_is_invariant_to_affine_rewards(groups, scale, shift):
    moved = reinforce_pp([scale * rewards + shift for rewards in groups])
    assert moved == pytest.approx(reinforce_pp(groups), abs=1e-6)


@given(groups_with_signal, st.randoms(use_true_random=False))
def test_order_of_the_rows_does_not_matter(groups, random):
    rows = np.concatenate([advantages(rewards, "reinforce_pp", 0.0) for rewards in groups])
    order = np.array(random.sample(range(len(rows)), len(rows)))
    assert normalise_batch(rows[order], 0.0) == pytest.approx(
        normalise_batch(rows, 0.0)[order], abs=1e-9
    )


@pytest.mark.parametrize("rows", [[], [0.7], [0.7, 0.7], [0.0] * 5])
@pytest.mark.parametrize("std_eps", [0.0, 1e-6])
def test_rows_that_do_not_differ_get_no_advantage(rows, std_eps):
    assert normalise_batch(np.array(rows), std_eps).tolist() == [0.0] * len(rows)


def test_rows_without_an_advantage_are_refused():
    with pytest.raises(ValueError, match="finite"):
        normalise_batch(np.array([1.0, np.nan]), 1e-6)
