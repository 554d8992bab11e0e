from pathlib import Path

import pytest

from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.config_diff import differences, refused

EXAMPLE = Path(__file__).parents[2] / "configs/dev/arithmetic.yaml"


def config(*overrides: str) -> ExperimentConfig:
    return load_config(EXAMPLE, ["steps=100", *overrides])


def test_equal_configurations_do_not_differ():
    assert differences(config(), config()) == []


def test_every_differing_leaf_is_listed_with_both_values():
    found = differences(config(), config("seed=1", "learner.optimizer.beta1=0.8"))
    assert [(d.key, d.old, d.new) for d in found] == [
        ("seed", 0, 1),
        ("learner.optimizer.beta1", 0.9, 0.8),
    ]


def test_a_section_of_another_kind_lists_keys_of_both():
    other = config("model={kind: pretrained, path: /m}")
    found = {d.key: (d.old, d.new) for d in differences(config(), other)}
    assert found["model.kind"] == ("arithmetic", "pretrained")
    assert found["model.path"] == (None, "/m")
    assert found["model.layers"][1] is None


@pytest.mark.parametrize(
    "override",
    [
        "steps=101",
        "telemetry.tensorboard=false",
        "cluster.object_store_gib=2.0",
        "evaluation.every_steps=3",
        "checkpoint.keep_last=9",
        "learner.on_non_finite=skip",
        "rollout.group_timeout_s=5.0",
        "learner.tokens_per_micro_batch=4096",
        "learner.threads=1",
        "rollout.engine.kv_cache_gib=2.0",
        "verifier.pool.workers=3",
    ],
)
def test_what_does_not_change_the_computation_may_change(override):
    assert differences(config(), config(override))
    assert refused(config(), config(override)) == []


@pytest.mark.parametrize(
    "override",
    [
        "seed=1",
        "steps=99",
        "learner.optimizer.learning_rate=1.0e-3",
        "learner.zero_stage=1",
        "rollout.prompts_per_step=8",
        "rollout.max_lag=1",
        "data.shuffle=false",
        "verifier.reward_correct=2.0",
    ],
)
def test_what_changes_the_computation_may_not(override):
    (line,) = refused(config(), config(override))
    assert line.startswith(override.split("=")[0] + ": ")


def test_steps_may_not_grow_under_a_schedule_that_ends_at_the_last_step():
    linear = "learner.optimizer.schedule=linear"
    (line,) = refused(config(linear), config(linear, "steps=200"))
    assert "linear schedule" in line
