import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.step import compose
from rlvr_platform.types import (
    Fate,
    Finish,
    GradedGroup,
    GroupSummary,
    Outcome,
    Verdict,
)


def settings(**sections):
    """A legal configuration without any method, but for the sections given."""
    return ExperimentConfig.model_validate(
        {
            "steps": 100,
            "model": {"kind": "pretrained", "path": "m"},
            "data": {"train": {"kind": "arithmetic"}},
            "verifier": {"use": {"kind": "exact"}},
            "rollout": {"max_new_tokens": 20},
            "algorithm": {"advantage": "dr_grpo"},
            **sections,
        },
        strict=False,
    )


DR_GRPO = settings()
VERDICTS = {
    "c": Verdict(Outcome.CORRECT, 1.0, "7", "exact", 0.1),
    "w": Verdict(Outcome.WRONG, 0.0, "8", "exact", 0.1),
    "n": Verdict(Outcome.NO_ANSWER, 0.0, "", "exact", 0.1),
    "t": Verdict(Outcome.TIMEOUT, None, "", "deadline", 5.0),
    "e": Verdict(Outcome.ERROR, None, "", "crash", 0.1),
}


def graded(letters, group_id=0, aborted=(), birth=3):
    """A group with one letter per sibling; sibling i has 10 + i tokens, all but one sampled."""
    size = len(letters)
    finish = np.zeros(size, np.uint8)
    finish[list(aborted)] = Finish.ABORT
    lengths = np.arange(10, 10 + size, dtype=np.int32)
    summary = GroupSummary(
        group_id=group_id,
        step=4,
        prompt_index=group_id,
        prompt_tokens=5,
        lengths=lengths,
        trained_tokens=lengths - 1,
        first_version=np.full(size, birth, np.int32),
        finish=finish,
        seconds=1.0,
        nbytes=100,
    )
    handle = f"handle-{group_id}"
    return GradedGroup(summary, tuple(VERDICTS[x] for x in letters), handle)


def test_rows_point_at_the_trained_siblings_of_groups_with_signal():
    groups = [graded("cc", 0), graded("cwtw", 1), graded("ww", 2), graded("wc", 3)]
    batch = compose(groups, 4, 3, None, DR_GRPO).batch
    assert batch.handles == ("handle-1", "handle-3")
    assert batch.group.tolist() == [0, 0, 0, 1, 1]
    assert batch.sibling.tolist() == [0, 1, 3, 0, 1]
    assert batch.advantage == pytest.approx([2 / 3, -1 / 3, -1 / 3, -0.5, 0.5])
    assert batch.length.tolist() == [15, 16, 18, 15, 16]
    assert batch.trained_tokens.tolist() == [9, 10, 12, 9, 10]
    assert batch.weight.tolist() == [1.0] * 5
    assert (batch.step, batch.version) == (4, 3)
    assert batch.advantage.dtype == batch.weight.dtype == np.float32
    assert batch.group.dtype == batch.sibling.dtype == batch.length.dtype == np.int32


def test_every_rollout_gets_exactly_one_fate():
    groups = [graded("ccc", 0), graded("cwt", 1), graded("ewc", 2, aborted=[2])]
    fates = compose(groups, 4, 3, None, DR_GRPO).fates
    assert [fate.tolist() for fate in fates] == [
        [Fate.DROPPED_NO_SIGNAL] * 3,
        [Fate.TRAINED, Fate.TRAINED, Fate.INVALID],
        [Fate.INVALID, Fate.DROPPED_NO_SIGNAL, Fate.INVALID],
    ]


def test_no_verdict_is_not_a_zero():
    with_errors = compose([graded("ccte")], 4, 3, None, DR_GRPO)
    assert with_errors.batch.rows == 0, "two correct and two errors are no signal"
    assert with_errors.metrics["reward/mean"] == 1.0
    mixed = compose([graded("cwte")], 4, 3, None, DR_GRPO)
    assert mixed.batch.advantage.tolist() == [0.5, -0.5]


def test_a_reward_of_an_aborted_rollout_is_ignored():
    composition = compose([graded("cwc", aborted=[2])], 4, 3, None, DR_GRPO)
    assert composition.batch.advantage.tolist() == [0.5, -0.5]
    assert composition.metrics["reward/mean"] == 0.5


def test_advantages_say_what_is_trained_dropped_and_invalid():
    scored = compose([graded("cwt"), graded("ct")], 4, 3, None, DR_GRPO).advantages
    assert scored[0] == pytest.approx([0.5, -0.5, np.nan], nan_ok=True)
    assert scored[1] == pytest.approx([0.0, np.nan], nan_ok=True)


@pytest.mark.parametrize("kind", ["grpo", "dr_grpo", "rloo"])
def test_valid_siblings_alone_decide_the_advantages(kind):
    config = settings(algorithm={"advantage": kind})
    with_invalid = compose([graded("cwewt")], 4, 3, None, config).batch
    without = compose([graded("cww")], 4, 3, None, config).batch
    assert with_invalid.advantage.tolist() == without.advantage.tolist()


def test_groups_without_signal_do_not_change_the_batch():
    useful = [graded("cwww", 1), graded("wc", 2)]
    alone = compose(useful, 4, 3, None, DR_GRPO).batch
    among = compose([graded("cc", 3), *useful, graded("tt", 4)], 4, 3, None, DR_GRPO).batch
    for field in dataclasses.fields(alone):
        assert np.array_equal(getattr(alone, field.name), getattr(among, field.name)), field.name


def test_statistics_are_of_raw_outcomes():
    groups = [
        graded("cccc", 0, birth=1),
        graded("cwnt", 1, birth=3),
        graded("ww", 2, birth=2),
        graded("te", 3, birth=3),
    ]
    metrics = compose(groups, 4, 3, None, DR_GRPO).metrics
    assert metrics == pytest.approx(
        {
            "reward/mean": 5 / 9,
            "acr/group": 2 / 3,
            "acr/rollout": 6 / 9,
            "rollouts/generated": 12,
            "rollouts/trained": 3,
            "rollouts/rescued": 0,
            "rollouts/down_sampled": 0,
            "rollouts/dropped": 6,
            "rollouts/pooled": 0,
            "rollouts/invalid": 3,
            "tokens/generated": 42 + 42 + 19 + 19,
            "tokens/trained": 30,
            "tokens/wasted": 42 + 12 + 19 + 19,
            "verdict/correct": 5,
            "verdict/wrong": 3,
            "verdict/no_answer": 1,
            "verdict/timeout": 2,
            "verdict/error": 1,
            "lag/mean": (4 * 2 + 4 * 0 + 2 * 1 + 2 * 0) / 12,
            "lag/max": 2,
        }
    )
    assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize("groups", [[], [graded("tt")]])
def test_nothing_to_train_on_is_an_empty_batch_and_no_invented_means(groups):
    composition = compose(groups, 4, 3, None, DR_GRPO)
    assert composition.batch.rows == 0 and composition.batch.handles == ()
    assert "reward/mean" not in composition.metrics and "acr/group" not in composition.metrics
    assert composition.metrics["rollouts/trained"] == 0


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_stops_the_step(reward):
    group = graded("cw", group_id=17)
    broken = dataclasses.replace(group.verdicts[0], reward=reward)
    with pytest.raises(NumericalError, match="group 17 has the reward"):
        compose(
            [dataclasses.replace(group, verdicts=(broken, group.verdicts[1]))], 4, 3, None, DR_GRPO
        )


def test_a_group_may_be_trained_partly_and_lags_count_every_rollout():
    groups = [graded("cwt", 0, birth=1)]
    composition = compose(groups, 4, 3, None, DR_GRPO)
    assert composition.metrics["lag/mean"] == 2 and composition.batch.rows == 2


def test_the_controller_composes_and_shards_without_torch():
    code = (
        "import sys, rlvr_platform.step, rlvr_platform.batching.sharding;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
