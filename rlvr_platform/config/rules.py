"""Rules that no single field can state. All violations are reported together."""

import difflib
from collections.abc import Iterator

from rlvr_platform.config import method_rules
from rlvr_platform.config.downsampling import Pods
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.verifiers_code import CodeVerifier
from rlvr_platform.config.verifiers_more import EndpointVerifier
from rlvr_platform.telemetry.names import METRICS, is_registered


def violations(config: ExperimentConfig) -> list[str]:
    """Every cross-field rule that `config` breaks, each as one sentence with its fix."""
    return [
        *_rollout_rules(config),
        *_learner_rules(config),
        *_sync_rules(config),
        *_checkpoint_rules(config),
        *_other_rules(config),
        *method_rules.violations(config),
    ]


def _rollout_rules(config: ExperimentConfig) -> Iterator[str]:
    rollout, groups = config.rollout, config.rollout.prompts_per_step
    window = groups * rollout.sampling_rounds * (rollout.max_lag + 1)
    if config.replay.capacity_groups < window:
        yield (
            f"replay.capacity_groups={config.replay.capacity_groups} is below "
            f"rollout.prompts_per_step * sampling_rounds * (max_lag + 1) = {window}: generation "
            f"could never fill a step; set replay.capacity_groups to at least {window}"
        )
    if rollout.workers > groups:
        yield (
            f"rollout.workers={rollout.workers} exceeds rollout.prompts_per_step={groups}: "
            f"some workers would never get a prompt; use at most {groups} workers"
        )


def _learner_rules(config: ExperimentConfig) -> Iterator[str]:
    learner, rollout = config.learner, config.rollout
    longest = config.longest_row
    if learner.tokens_per_micro_batch < longest:
        yield (
            f"learner.tokens_per_micro_batch={learner.tokens_per_micro_batch} cannot hold the "
            f"longest row, data.max_prompt_tokens + rollout.max_new_tokens = {longest}; "
            f"raise it to at least {longest}"
        )
    rows = rollout.prompts_per_step * rollout.rollouts_per_prompt
    if isinstance(config.downsampling, Pods):
        rows = min(rows, rollout.prompts_per_step * config.downsampling.keep)
    if rows < learner.ranks * learner.minibatches:
        yield (
            f"a step has {rows} rows, fewer than learner.ranks * learner.minibatches = "
            f"{learner.ranks * learner.minibatches}; lower one of them"
        )
    if learner.dtype == "bfloat16" and learner.zero_stage == 0:
        # Measured over 20 steps: the weights' movement is off by 6 % at stage 0, 0.6 % at 1.
        yield (
            "learner.dtype=bfloat16 with learner.zero_stage=0 adds up gradients in bfloat16 and "
            "loses small ones; use zero_stage=1, which costs nothing on one rank"
        )
    if learner.layout == "shared_prompt" and learner.attention != "sdpa":
        yield f"learner.layout=shared_prompt needs learner.attention=sdpa, not {learner.attention}"
    if learner.attention == "flash_attention_2" and config.cluster.device == "cpu":
        yield "learner.attention=flash_attention_2 needs cluster.device=gpu; use sdpa on CPU"
    if learner.optimizer.warmup_steps >= config.steps * learner.minibatches:
        yield (
            f"learner.optimizer.warmup_steps={learner.optimizer.warmup_steps} leaves no step "
            f"after warm-up: the run has {config.steps * learner.minibatches} optimizer steps"
        )


def _sync_rules(config: ExperimentConfig) -> Iterator[str]:
    transport, cluster = config.sync.transport, config.cluster
    if transport != "object_store" and cluster.device == "cpu":
        yield f"sync.transport={transport} needs cluster.device=gpu; use object_store on CPU"
    if cluster.colocate and transport != "ipc":
        yield f"cluster.colocate needs sync.transport=ipc, not {transport}"
    if transport == "ipc" and not cluster.colocate:
        yield "sync.transport=ipc shares one GPU's memory: set cluster.colocate=true, or use nccl"
    if cluster.colocate and config.learner.ranks != config.rollout.workers:
        yield (
            f"cluster.colocate pairs each learner rank with a rollout worker, but learner.ranks="
            f"{config.learner.ranks} and rollout.workers={config.rollout.workers}"
        )
    if config.rollout.engine.tensor_parallel > 1 and (cluster.device == "cpu" or cluster.colocate):
        yield "rollout.engine.tensor_parallel above 1 needs GPUs that no learner shares"


def _checkpoint_rules(config: ExperimentConfig) -> Iterator[str]:
    metric, suites = config.checkpoint.best_metric, config.evaluation.suites
    if config.checkpoint.keep_best == 0:
        return
    if not is_registered(metric):
        near = difflib.get_close_matches(metric, [known.name for known in METRICS], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"checkpoint.best_metric={metric} is not a metric of metrics.jsonl{hint}"
    elif metric.startswith("eval/"):
        kinds = ("avg@{}", "pass@{}", "length_correct", "length_wrong")
        names = [f"eval/{s.name}/{kind.format(s.samples)}" for s in suites for kind in kinds]
        if metric not in names:
            yield (
                f"checkpoint.best_metric={metric} is measured by no suite of evaluation.suites; "
                f"use one of: {', '.join(names) or 'none, there are no suites'}"
            )
        elif config.evaluation.every_steps is None:
            yield (
                f"checkpoint.best_metric={metric} is measured at the last step alone; "
                "set evaluation.every_steps"
            )


def _other_rules(config: ExperimentConfig) -> Iterator[str]:
    for suite in config.evaluation.suites:
        if suite.temperature == 0 and suite.samples > 1:
            yield (
                f"evaluation suite {suite.name}: greedy completions (temperature 0) are all the "
                f"same, so samples={suite.samples} measures nothing more; use samples=1"
            )
    kl, names = config.algorithm.kl, [s.name for s in config.evaluation.suites]
    if kl.coefficient > 0 and kl.estimator == "none":
        yield "algorithm.kl.coefficient needs algorithm.kl.estimator: choose k1, k2 or k3"
    if config.algorithm.constant_length and config.algorithm.normalisation != "constant":
        yield "algorithm.constant_length has no effect unless algorithm.normalisation=constant"
    use, pool = config.verifier.use, config.verifier.pool
    if isinstance(use, EndpointVerifier) and use.deadline_s >= pool.deadline_s:
        yield (
            f"verifier.use.deadline_s={use.deadline_s:g} must be below verifier.pool.deadline_s="
            f"{pool.deadline_s:g}: else the pool kills the request before it can end"
        )
    if isinstance(use, CodeVerifier) and use.wall_s >= pool.deadline_s:
        yield (
            f"verifier.use.wall_s={use.wall_s:g} must be below verifier.pool.deadline_s="
            f"{pool.deadline_s:g}, which bounds all tests of a completion together"
        )
    if isinstance(use, CodeVerifier) and use.memory_mib > pool.memory_mib:
        yield (
            f"verifier.use.memory_mib={use.memory_mib} must not exceed verifier.pool.memory_mib="
            f"{pool.memory_mib}, the limit of the process that starts the program"
        )
    if config.verifier.reward_correct <= config.verifier.reward_wrong:
        yield "verifier.reward_correct must be above verifier.reward_wrong"
    if len(set(names)) < len(names):
        yield f"evaluation.suites has two suites of one name: {', '.join(names)}"
    if config.evaluation.every_steps and not names:
        yield "evaluation.every_steps is set but evaluation.suites is empty"
    if config.data.format.system and config.data.format.template != "chat":
        yield "data.format.system has no effect unless data.format.template=chat"
