"""Every rule of the methods, by a configuration that breaks it and nothing else."""

import inspect
import re

import pytest

from rlvr_platform.config import method_rules, rules
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.loader import apply_overrides

LEGAL = {
    "steps": 10,
    "model": {"kind": "pretrained", "path": "m"},
    "data": {"train": {"kind": "arithmetic"}, "max_prompt_tokens": 100},
    "rollout": {"max_new_tokens": 100},
    "verifier": {"use": {"kind": "exact"}},
}
VIP = "allocator.kind=vip"
REPLAY = ("replay.reuse={kind: prioritised, start_step: 5}", "algorithm.mismatch.mode=bypass")
AVSPO = "avspo.kind=avspo"

BROKEN = {
    "dual_clip bounds algorithm.loss=clipped only, not gspo": (
        "algorithm.dual_clip=3.0",
        "algorithm.loss=gspo",
    ),
    "algorithm.overlong.cache=101 exceeds rollout.max_new_tokens=100": (
        "algorithm.overlong={kind: penalty, cache: 101}",
    ),
    "above 1 needs rollout.max_lag=0": ("rollout.sampling_rounds=2", "rollout.max_lag=1"),
    "allocator.kind=vip exclude each other": ("rollout.sampling_rounds=2", VIP),
    "avspo.kind=avspo are two answers": ("rollout.sampling_rounds=2", AVSPO),
    "min_rollouts=9 is above allocator.max_rollouts=8": (
        "allocator={kind: vip, min_rollouts: 9, max_rollouts: 8}",
    ),
    "rollouts_per_prompt=8 is the average": ("allocator={kind: vip, min_rollouts: 9}",),
    "dr_grpo needs allocator.min_rollouts of 3 or more, not 2": (
        "allocator={kind: vip, objective: dr_grpo, min_rollouts: 2}",
    ),
    "downsampling.keep=8 leaves nothing out of groups of at most 8": (
        "downsampling={kind: pods, keep: 8}",
    ),
    "avspo.kind=avspo repairs the statistics of a group": (
        AVSPO,
        "algorithm.advantage=reinforce_pp",
    ),
    "avspo.tau=0.05 must lie in avspo.tau_min..tau_max = 0.1..0.9": (
        "avspo={kind: avspo, tau: 0.05}",
    ),
    "replay.reuse needs algorithm.mismatch.mode=bypass": (REPLAY[0],),
    "max_age=1 with rollout.max_lag=1": (
        *REPLAY,
        "replay.reuse.max_age=1",
        "rollout.max_lag=1",
    ),
    "composition=pool draws single rollouts": (*REPLAY, VIP, "replay.reuse.composition=pool"),
    "start_step=11 is after the last step, 10": (*REPLAY, "replay.reuse.start_step=11"),
}
"""Part of the message, and the overrides that provoke it."""

BROKEN_OTHERWISE = [
    ("algorithm.dual_clip=3.0", "algorithm.loss=cispo"),
    ("allocator={kind: vip, min_rollouts: 4, max_rollouts: 7}",),
    (VIP, "downsampling={kind: pods, keep: 16}"),
    ("avspo={kind: avspo, tau: 0.95}",),
    ("avspo={kind: avspo, tau_min: 0.6}",),
    (*REPLAY, "replay.reuse.max_age=0"),
]
"""Other ways to break a rule from above, each once."""

AT_THE_LIMIT = [
    ("algorithm.dual_clip=3.0",),
    ("algorithm.loss=gspo",),
    ("algorithm.overlong={kind: penalty, cache: 100}",),
    ("algorithm.overlong={kind: mask}",),
    ("rollout.sampling_rounds=2",),
    ("rollout.sampling_rounds=2", "downsampling={kind: pods, keep: 4}"),
    ("rollout.sampling_rounds=2", *REPLAY),
    (VIP, "rollout.max_lag=1"),
    ("allocator={kind: vip, min_rollouts: 8, max_rollouts: 8}",),
    ("allocator={kind: vip, min_rollouts: 8}",),
    ("allocator={kind: vip, max_rollouts: 8}",),
    ("allocator={kind: vip, objective: dr_grpo, min_rollouts: 3}",),
    ("allocator={kind: vip, objective: rloo, min_rollouts: 2}",),
    ("downsampling={kind: pods, keep: 7}",),
    (VIP, "downsampling={kind: pods, keep: 15}"),
    *((AVSPO, f"algorithm.advantage={kind}") for kind in ("grpo", "dr_grpo", "rloo")),
    ("avspo={kind: avspo, tau: 0.1}",),
    ("avspo={kind: avspo, tau: 0.9}",),
    (*REPLAY, "replay.reuse.max_age=2", "rollout.max_lag=1"),
    (*REPLAY, "replay.reuse.max_age=1"),
    (*REPLAY, "replay.reuse={eviction: capacity, max_age: null}", "rollout.max_lag=3"),
    (*REPLAY, "replay.reuse.start_step=10"),
    (*REPLAY, "replay.reuse.composition=pool"),
    (VIP, "downsampling={kind: pods, keep: 8}", AVSPO, *REPLAY),
]


def violations(*overrides: str) -> list[str]:
    tree = apply_overrides(LEGAL, overrides)
    return rules.violations(ExperimentConfig.model_validate(tree, strict=False))


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_rule_is_reported_alone_and_in_its_words(message):
    found = violations(*BROKEN[message])
    assert len(found) == 1
    assert message in found[0]


@pytest.mark.parametrize("overrides", BROKEN_OTHERWISE, ids=" ".join)
def test_a_rule_holds_on_its_other_side(overrides):
    assert len(violations(*overrides)) == 1


@pytest.mark.parametrize("overrides", AT_THE_LIMIT, ids=" ".join)
def test_just_inside_the_limit_is_legal(overrides):
    assert violations(*overrides) == []


def test_broken_rules_of_several_methods_are_reported_together():
    overrides = (REPLAY[0], "replay.reuse.start_step=11", "downsampling={kind: pods, keep: 9}")
    assert len(violations(*overrides)) == 3


def test_every_rule_has_a_case_here():
    assert len(BROKEN) == len(re.findall(r"\byield\b(?! from)", inspect.getsource(method_rules)))
