import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.outcomes import groups_with_signal, measure, observe, valid_rollouts
from rlvr_platform.types import (
    Finish,
    FinishedGroups,
    GradedGroup,
    GradedGroups,
    GroupSummary,
    Outcome,
    Verdict,
)


def verdict(reward):
    """None: the verifier ran out of time."""
    outcome = Outcome.TIMEOUT if reward is None else Outcome.CORRECT if reward else Outcome.WRONG
    return Verdict(outcome, reward, "", "test", 0.0)


def graded(rewards, aborted=(), group_id=5, births=None):
    size = len(rewards)
    finish = np.zeros(size, np.uint8)
    finish[list(aborted)] = Finish.ABORT
    summary = GroupSummary(
        group_id=group_id,
        step=1,
        prompt_index=10 * group_id,
        prompt_tokens=4,
        lengths=np.arange(1, size + 1, dtype=np.int32),
        trained_tokens=np.ones(size, np.int32),
        first_version=np.array([0] * size if births is None else births, np.int32),
        finish=finish,
        seconds=1.0,
        nbytes=1,
    )
    return GradedGroup(summary, tuple(verdict(reward) for reward in rewards), None)


def measured(groups, version=3):
    return measure(groups, [valid_rollouts(group) for group in groups], version)


def judge(**rewards):
    return VerifierConfig.model_validate({"use": {"kind": "exact"}, **rewards}, strict=False)


def test_valid_is_what_has_a_verdict_and_was_not_aborted():
    group = graded([1.0, None, 0.0, 1.0], aborted=[3])
    assert valid_rollouts(group).tolist() == [True, False, True, False]


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), float("-inf")])
def test_a_reward_that_is_not_finite_names_its_group(reward):
    with pytest.raises(NumericalError, match="group 5 has the reward"):
        valid_rollouts(graded([0.0, reward]))


def test_j_is_the_mean_over_prompts_and_the_reward_the_mean_over_rollouts():
    raw = measured([graded([1.0, 1.0, 1.0, 0.0]), graded([0.0, None]), graded([None])])
    assert raw.reward_mean == pytest.approx(3 / 5)
    assert raw.reward_by_prompt == pytest.approx((3 / 4 + 0) / 2)


def test_collapse_is_counted_over_groups_and_rollouts_with_a_verdict():
    raw = measured([graded([1.0, 1.0]), graded([1.0, 0.0, 0.0]), graded([None]), graded([0.5])])
    assert raw.acr_group == pytest.approx(2 / 3)
    assert raw.acr_rollout == pytest.approx(3 / 6)


def test_an_aborted_rollout_takes_no_part():
    with_it = measured([graded([1.0, 1.0, 0.0], aborted=[2])])
    without = measured([graded([1.0, 1.0])])
    for name in ("reward_mean", "reward_by_prompt", "acr_group", "acr_rollout"):
        assert getattr(with_it, name) == getattr(without, name)


def test_verdicts_and_lags_count_every_rollout():
    raw = measured([graded([1.0, None, 0.0], aborted=[0], births=[3, 1, 2])])
    assert raw.verdicts == {Outcome.CORRECT: 1, Outcome.TIMEOUT: 1, Outcome.WRONG: 1}
    assert raw.lags.tolist() == [0, 2, 1]


@pytest.mark.parametrize("groups", [[], [graded([None, None])]])
def test_nothing_valid_has_no_statistics(groups):
    raw = measured(groups)
    for name in ("reward_mean", "reward_by_prompt", "acr_group", "acr_rollout"):
        assert np.isnan(getattr(raw, name))


def test_an_observation_is_of_valid_rollouts_and_keeps_prompts_without_one():
    groups = [graded([1.0, None, 0.0, 1.0, 1.0], aborted=[4]), graded([None], group_id=6)]
    seen = observe(groups, judge())
    assert seen.prompts.tolist() == [50, 60]
    assert seen.counts.tolist() == [3, 0]
    assert seen.successes.tolist() == [2.0, 0.0]
    assert seen.tokens.tolist() == [1 + 3 + 4, 0]
    assert seen.success_rate == pytest.approx(2 / 3)


@given(
    st.lists(st.booleans(), min_size=1, max_size=8),
    st.floats(-5, 5),
    st.floats(0.1, 5),
)
def test_successes_do_not_depend_on_the_scale_of_the_rewards(correct, low, width):
    high = low + width
    rewards = [high if right else low for right in correct]
    seen = observe([graded(rewards)], judge(reward_wrong=low, reward_correct=high))
    assert seen.successes[0] == pytest.approx(sum(correct), abs=1e-9)


@pytest.mark.parametrize(
    ("rewards", "aborted", "signal"),
    [
        ([1.0, 0.0], [], 1),
        ([1.0, 1.0], [], 0),
        ([1.0], [], 0),
        ([1.0, None], [], 0),
        ([None, None], [], 0),
        ([1.0, 0.0], [1], 0),
        ([1.0, 0.0, 0.0], [1], 1),
    ],
)
def test_only_valid_verdicts_that_differ_are_signal(rewards, aborted, signal):
    group = graded(rewards, aborted)
    finished = FinishedGroups((group.summary,) * 2, None)
    assert groups_with_signal(GradedGroups(finished, (group.verdicts,) * 2)) == 2 * signal
