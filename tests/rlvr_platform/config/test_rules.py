"""Every cross-field rule, by a configuration that breaks it and nothing else."""

import inspect
import re

import pytest

from rlvr_platform.config import rules
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.loader import apply_overrides

LEGAL = {
    "steps": 10,
    "model": {"kind": "pretrained", "path": "m"},
    "data": {"train": {"kind": "arithmetic"}, "max_prompt_tokens": 100},
    "rollout": {"max_new_tokens": 100},
    "verifier": {"use": {"kind": "exact"}},
}
SUITE = "{name: s, source: {kind: arithmetic}}"
GPU = "cluster.device=gpu"
COLOCATED = (GPU, "cluster.colocate=true", "sync.transport=ipc")

BROKEN = {
    "replay.capacity_groups=31": ("rollout.max_lag=1", "replay.capacity_groups=31"),
    "rollout.workers=17": ("rollout.workers=17",),
    "learner.tokens_per_micro_batch=199": ("learner.tokens_per_micro_batch=199",),
    "a step has 128 rows": ("learner.minibatches=65", "learner.ranks=2"),
    "loses small ones": ("learner.zero_stage=0",),
    "samples=2 measures nothing more": (
        "evaluation.suites=[{name: s, source: {kind: arithmetic}, temperature: 0.0, samples: 2}]",
    ),
    "shared_prompt needs learner.attention=sdpa": (
        "learner.layout=shared_prompt",
        "learner.attention=eager",
    ),
    "flash_attention_2 needs": ("learner.attention=flash_attention_2",),
    "warmup_steps=10 leaves no step": ("learner.optimizer.warmup_steps=10",),
    "did you mean reward/mean?": ("checkpoint.keep_best=1", "checkpoint.best_metric=reward/men"),
    "is measured by no suite": ("checkpoint.keep_best=1", "checkpoint.best_metric=eval/s/avg@1"),
    "is measured at the last step alone": (
        f"evaluation.suites=[{SUITE}]",
        "checkpoint.keep_best=1",
        "checkpoint.best_metric=eval/s/avg@1",
    ),
    "sync.transport=nccl needs": ("sync.transport=nccl",),
    "cluster.colocate needs sync.transport=ipc, not nccl": (
        GPU,
        "cluster.colocate=true",
        "sync.transport=nccl",
    ),
    "set cluster.colocate=true": (GPU, "sync.transport=ipc"),
    "pairs each learner rank": (*COLOCATED, "learner.ranks=2"),
    "tensor_parallel above 1": ("rollout.engine.tensor_parallel=2",),
    "algorithm.kl.coefficient needs": ("algorithm.kl.coefficient=0.1",),
    "algorithm.constant_length has no effect": ("algorithm.constant_length=9",),
    "verifier.use.deadline_s=5 must be below verifier.pool.deadline_s=5": (
        "verifier.use={kind: endpoint, url: 'http://localhost:1', deadline_s: 5.0}",
    ),
    "verifier.use.wall_s=5 must be below verifier.pool.deadline_s=5": (
        "verifier.use={kind: code, wall_s: 5.0}",
    ),
    "verifier.use.memory_mib=2049 must not exceed verifier.pool.memory_mib=2048": (
        "verifier.use={kind: code, memory_mib: 2049}",
    ),
    "reward_correct must be above": ("verifier.reward_correct=0.0",),
    "two suites of one name: s, s": (f"evaluation.suites=[{SUITE}, {SUITE}]",),
    "evaluation.every_steps is set": ("evaluation.every_steps=2",),
    "data.format.system has no effect": ("data.format.system=be brief",),
}
"""Part of the message, and the overrides that provoke it."""

AT_THE_LIMIT = [
    ("rollout.max_lag=1", "replay.capacity_groups=32"),
    ("rollout.sampling_rounds=2", "replay.capacity_groups=32"),
    ("rollout.workers=16",),
    ("learner.tokens_per_micro_batch=200",),
    ("learner.minibatches=64", "learner.ranks=2"),
    ("learner.minibatches=64", "downsampling={kind: pods, keep: 4}"),
    ("learner.zero_stage=0", "learner.dtype=float32"),
    ("evaluation.suites=[{name: s, source: {kind: arithmetic}, temperature: 0.0}]",),
    ("evaluation.suites=[{name: s, source: {kind: arithmetic}, temperature: 0.1, samples: 2}]",),
    (GPU, "learner.attention=flash_attention_2"),
    ("learner.layout=shared_prompt", "learner.attention=sdpa"),
    ("learner.optimizer.warmup_steps=9",),
    ("learner.optimizer.warmup_steps=19", "learner.minibatches=2"),
    (GPU, "sync.transport=nccl"),
    COLOCATED,
    (*COLOCATED, "learner.ranks=2", "rollout.workers=2"),
    (GPU, "rollout.engine.tensor_parallel=2"),
    ("algorithm.kl.coefficient=0.1", "algorithm.kl.estimator=k3"),
    ("algorithm.constant_length=9", "algorithm.normalisation=constant"),
    (f"evaluation.suites=[{SUITE}]", "evaluation.every_steps=2"),
    ("checkpoint.best_metric=unused",),
    (
        f"evaluation.suites=[{SUITE}]",
        "evaluation.every_steps=2",
        "checkpoint.keep_best=1",
        "checkpoint.best_metric=eval/s/pass@1",
    ),
    ("verifier.use={kind: endpoint, url: 'http://localhost:1', deadline_s: 4.9}",),
    ("verifier.use={kind: code, memory_mib: 2048, wall_s: 4.9}",),
    ("data.format.system=be brief", "data.format.template=chat"),
]


def violations(*overrides: str) -> list[str]:
    tree = apply_overrides(LEGAL, overrides)
    return rules.violations(ExperimentConfig.model_validate(tree, strict=False))


def test_the_legal_configuration_breaks_no_rule():
    assert violations() == []


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_rule_is_reported_alone_and_in_its_words(message):
    found = violations(*BROKEN[message])
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize("overrides", AT_THE_LIMIT, ids=" ".join)
def test_just_inside_the_limit_is_legal(overrides):
    assert violations(*overrides) == []


@pytest.mark.parametrize(
    ("message", "overrides"),
    [
        ("capacity_groups=31", ("rollout.sampling_rounds=2", "replay.capacity_groups=31")),
        ("has 64 rows", ("learner.minibatches=65", "downsampling={kind: pods, keep: 4}")),
    ],
)
def test_a_method_moves_the_limit_of_a_rule(message, overrides):
    found = violations(*overrides)
    assert len(found) == 1
    assert message in found[0]


def test_every_rule_has_a_case_here():
    assert len(BROKEN) == len(re.findall(r"\byield\b(?! from)", inspect.getsource(rules)))
