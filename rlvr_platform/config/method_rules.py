"""Which methods go together, and which settings of theirs could have no effect."""

from collections.abc import Iterator

from rlvr_platform.allocation.objectives import OBJECTIVES
from rlvr_platform.config.algorithm import OverlongPenalised
from rlvr_platform.config.avspo import Avspo
from rlvr_platform.config.downsampling import Pods
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.replay import PrioritisedReuse


def violations(config: ExperimentConfig) -> Iterator[str]:
    """Every rule of the methods that `config` breaks, each as one sentence with its fix."""
    yield from _loss_rules(config)
    yield from _dynamic_sampling_rules(config)
    yield from _allocation_rules(config)
    yield from _down_sampling_rules(config)
    yield from _avspo_rules(config)
    yield from _replay_rules(config)


def _loss_rules(config: ExperimentConfig) -> Iterator[str]:
    algorithm, longest = config.algorithm, config.rollout.max_new_tokens
    if algorithm.dual_clip is not None and algorithm.loss != "clipped":
        yield f"algorithm.dual_clip bounds algorithm.loss=clipped only, not {algorithm.loss}"
    overlong = algorithm.overlong
    if isinstance(overlong, OverlongPenalised) and overlong.cache > longest:
        yield (
            f"algorithm.overlong.cache={overlong.cache} exceeds rollout.max_new_tokens={longest}: "
            f"every completion would be penalised; use at most {longest}"
        )


def _dynamic_sampling_rules(config: ExperimentConfig) -> Iterator[str]:
    rollout = config.rollout
    if rollout.sampling_rounds == 1:
        return
    if rollout.max_lag > 0:
        yield (
            "rollout.sampling_rounds above 1 needs rollout.max_lag=0: the prompts of a later step "
            "would depend on how fast this one was graded, and a resumed run would draw others"
        )
    if config.allocator.kind == "vip":
        yield (
            "rollout.sampling_rounds above 1 and allocator.kind=vip exclude each other: VIP "
            "spends a fixed budget, dynamic sampling goes beyond it; choose one"
        )
    if isinstance(config.avspo, Avspo):
        yield (
            "rollout.sampling_rounds above 1 and avspo.kind=avspo are two answers to collapsed "
            "groups, one replaces what the other repairs; choose one"
        )


def _allocation_rules(config: ExperimentConfig) -> Iterator[str]:
    vip, rollout = config.allocator, config.rollout
    if vip.kind != "vip":
        return
    if vip.min_rollouts > vip.max_rollouts:
        yield (
            f"allocator.min_rollouts={vip.min_rollouts} is above allocator.max_rollouts="
            f"{vip.max_rollouts}"
        )
    elif not vip.min_rollouts <= rollout.rollouts_per_prompt <= vip.max_rollouts:
        yield (
            f"rollout.rollouts_per_prompt={rollout.rollouts_per_prompt} is the average of every "
            f"step, so it must lie in allocator.min_rollouts..max_rollouts = "
            f"{vip.min_rollouts}..{vip.max_rollouts}"
        )
    least = OBJECTIVES[vip.objective].minimum
    if vip.min_rollouts < least:
        yield (
            f"allocator.objective={vip.objective} needs allocator.min_rollouts of {least} or "
            f"more, not {vip.min_rollouts}: below, its gain is not falling with every rollout"
        )


def _down_sampling_rules(config: ExperimentConfig) -> Iterator[str]:
    pods, rollout, allocator = config.downsampling, config.rollout, config.allocator
    if not isinstance(pods, Pods):
        return
    most = allocator.max_rollouts if allocator.kind == "vip" else rollout.rollouts_per_prompt
    if pods.keep >= most:
        yield (
            f"downsampling.keep={pods.keep} leaves nothing out of groups of at most {most} "
            f"rollouts; use less than {most}, or downsampling.kind=none"
        )


def _avspo_rules(config: ExperimentConfig) -> Iterator[str]:
    avspo = config.avspo
    if not isinstance(avspo, Avspo):
        return
    if config.algorithm.advantage == "reinforce_pp":
        yield (
            "avspo.kind=avspo repairs the statistics of a group, and "
            "algorithm.advantage=reinforce_pp has those of the batch; use grpo, dr_grpo or rloo"
        )
    if not avspo.tau_min <= avspo.tau <= avspo.tau_max:
        yield (
            f"avspo.tau={avspo.tau} must lie in avspo.tau_min..tau_max = "
            f"{avspo.tau_min}..{avspo.tau_max}"
        )


def _replay_rules(config: ExperimentConfig) -> Iterator[str]:
    reuse, rollout = config.replay.reuse, config.rollout
    if not isinstance(reuse, PrioritisedReuse):
        return
    if config.algorithm.mismatch.mode != "bypass":
        yield (
            "replay.reuse needs algorithm.mismatch.mode=bypass: the ratio to the policy that "
            "generated a rollout is its only correction, and truncated would clip another one"
        )
    if reuse.max_age is not None and reuse.max_age <= rollout.max_lag:
        yield (
            f"replay.reuse.max_age={reuse.max_age} with rollout.max_lag={rollout.max_lag} would "
            f"evict rollouts before their first draw, which comes one step after their own; use "
            f"at least {rollout.max_lag + 1}"
        )
    if reuse.composition == "pool" and config.allocator.kind == "vip":
        yield (
            "replay.reuse.composition=pool draws single rollouts, and allocator.kind=vip needs "
            "every prompt to pull equally hard: use composition=anchored"
        )
    if reuse.start_step > config.steps:
        yield (
            f"replay.reuse.start_step={reuse.start_step} is after the last step, {config.steps}: "
            f"nothing would ever be replayed"
        )
