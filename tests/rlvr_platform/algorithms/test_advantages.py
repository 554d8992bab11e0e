import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.advantages import advantages, has_signal

KINDS = ["grpo", "dr_grpo", "rloo"]
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
