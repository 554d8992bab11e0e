"""Every metric by name, with unit and meaning. A name that is not here is never written."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rlvr_platform.errors import NumericalError


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    """As in metrics.jsonl; in a pattern, SUITE stands for a suite's name and k for a number."""
    unit: str
    meaning: str
    """What it tells, and what to do about it."""


METRICS: tuple[Metric, ...] = (
    Metric(
        "step",
        "count",
        "Updates finished when the line was written; 0 is the state before training. "
        "Never decreases, also not across a resume.",
    ),
    Metric(
        "version",
        "count",
        "Weight version that the engines hold after the step. Rises by one per published update.",
    ),
    Metric(
        "reward/mean",
        "reward",
        "Mean reward of the step's fresh rollouts that have a verdict. The curve to watch; noisy "
        "from step to step, because every step has other prompts.",
    ),
    Metric(
        "acr/group",
        "share",
        "Advantage collapse rate: groups whose siblings all got the same reward, so that no "
        "sibling is better than another. High from the start: tasks too hard or too easy.",
    ),
    Metric(
        "acr/rollout",
        "share",
        "Rollouts that belong to collapsed groups: the part of generation that taught nothing.",
    ),
    Metric(
        "acr/effective",
        "share",
        "What the allocator's predictor expected acr/group to be when it allocated; absent "
        "without a predictor. Near acr/group: the predictor is to be trusted.",
    ),
    Metric("rollouts/generated", "rollouts", "Rollouts the engines finished for this step."),
    Metric(
        "rollouts/trained",
        "rollouts",
        "Fresh rollouts that carried gradient, those of mixed groups. Trained, rescued, "
        "down_sampled, dropped, pooled and invalid add up to generated.",
    ),
    Metric(
        "rollouts/rescued",
        "rollouts",
        "Rollouts of collapsed groups that carried gradient, because AVSPO gave their group an "
        "advantage.",
    ),
    Metric(
        "rollouts/replayed",
        "rollouts",
        "Rollouts of earlier steps that carried gradient again; not part of generated.",
    ),
    Metric(
        "rollouts/down_sampled",
        "rollouts",
        "Rollouts that PODS left out of the update, of groups that are trained on.",
    ),
    Metric(
        "rollouts/dropped",
        "rollouts",
        "Rollouts left out because their group collapsed, or because the token limit cut them "
        "under algorithm.overlong.kind=mask. They do not enter the denominator.",
    ),
    Metric(
        "rollouts/pooled",
        "rollouts",
        "Rollouts put into the replay pool and not drawn from it in their own step; with "
        "replay.reuse.composition=pool only.",
    ),
    Metric(
        "rollouts/invalid",
        "rollouts",
        "Rollouts without a verdict (timeout, error) or given up by the engine. They are not "
        "zeros. Above 0 for long: see events.jsonl and verdict/timeout, verdict/error.",
    ),
    Metric("tokens/generated", "tokens", "Completion tokens the engines sampled for this step."),
    Metric("tokens/trained", "tokens", "Tokens that carried gradient: the loss's denominator."),
    Metric(
        "tokens/wasted",
        "tokens",
        "Sampled tokens of the step's own rollouts that carried no gradient in it: paid for and "
        "not learned from.",
    ),
    Metric("verdict/correct", "rollouts", "Completions whose answer is right."),
    Metric("verdict/wrong", "rollouts", "Completions whose answer is wrong."),
    Metric(
        "verdict/no_answer",
        "rollouts",
        "Completions in which no answer was found; rewarded as wrong. Many: check the prompt's "
        "answer format, or raise rollout.max_new_tokens.",
    ),
    Metric(
        "verdict/timeout",
        "rollouts",
        "Verdicts that ran past verifier.pool.deadline_s; the process was killed and replaced.",
    ),
    Metric(
        "verdict/error",
        "rollouts",
        "Verdicts that failed. A verifier's crash, not the policy's fault: see events.jsonl.",
    ),
    Metric(
        "loss/policy",
        "nats",
        "Policy loss over trained tokens, KL penalty included. Its value says little: near 0 is "
        "normal, because "
        "advantages sum to about 0 within a group. Watch reward/mean and acr/group.",
    ),
    Metric(
        "grad/norm",
        "norm",
        "Global gradient norm before clipping. Above learner.optimizer.max_grad_norm at every "
        "step: the learning rate in effect is lower than the one set.",
    ),
    Metric("learning_rate", "1", "Learning rate of the step's last optimizer step."),
    Metric(
        "policy/entropy",
        "nats",
        "Mean entropy at the trained positions. Falling towards 0: exploration ends and ACR "
        "rises; raise algorithm clip-higher or the temperature.",
    ),
    Metric(
        "policy/kl_behaviour",
        "nats",
        "k3 estimate of KL(behaviour || policy before the update): engine and trainer mismatch "
        "plus lag. About 0 at lag 0; growing at a learning rate of 0 means a numerical drift.",
    ),
    Metric(
        "policy/kl_reference",
        "nats",
        "Mean KL value against the starting policy; 0 when no reference model is loaded.",
    ),
    Metric(
        "policy/clip_fraction",
        "share",
        "Trained tokens whose ratio was clipped. 0 with one on-policy update per step; above "
        "about 0.2 the data is too old or the learning rate too high.",
    ),
    Metric(
        "policy/truncated_fraction",
        "share",
        "Trained tokens whose engine/trainer importance weight hit its cap. Above about 0.01: "
        "precisions differ too much, or the lag is too large.",
    ),
    Metric("allocation/min", "rollouts", "Fewest rollouts given to a prompt of the step."),
    Metric("allocation/max", "rollouts", "Most rollouts given to a prompt of the step."),
    Metric(
        "allocation/fallback",
        "flag",
        "Is 1 when predictor or solver failed and the step's counts are uniform instead; the "
        "reason is in events.jsonl.",
    ),
    Metric(
        "allocation/predicted_mean",
        "share",
        "Mean success probability that the predictor gave the step's prompts, before they ran.",
    ),
    Metric(
        "allocation/observed_mean",
        "share",
        "Mean success rate of the same prompts: what allocation/predicted_mean should be.",
    ),
    Metric(
        "allocation/brier",
        "score",
        "Brier score of the predictor on the step's rollouts, 0 is perfect. Compare it with "
        "allocation/brier_moving_average; above it, the embedding tells the predictor nothing.",
    ),
    Metric(
        "allocation/brier_moving_average",
        "score",
        "Brier score of each prompt's own moving average on the same rollouts: the baseline.",
    ),
    Metric(
        "avspo/threshold",
        "share",
        "Smoothed ACR above which this step rescued collapsed groups.",
    ),
    Metric("avspo/groups", "groups", "Collapsed groups that were rescued."),
    Metric("avspo/virtual", "rewards", "Virtual rewards in the statistics of rescued groups."),
    Metric(
        "avspo/share",
        "share",
        "Rescued rows' share of the sum of |advantage| over fresh rows; at most avspo.max_share.",
    ),
    Metric(
        "avspo/scale",
        "factor",
        "By how much the cap on the share shrank the rescued advantages; 1: not at all.",
    ),
    Metric("buffer/waiting", "groups", "Groups of later steps that wait in the central buffer."),
    Metric("replay/size", "rollouts", "Rollouts stored for reuse when the step began."),
    Metric("replay/bytes", "bytes", "Memory of the stored rollouts' groups."),
    Metric(
        "replay/age_mean",
        "versions",
        "Mean age of the replayed rollouts: version of the update minus version of birth. "
        "Absent when none was replayed; fresh rollouts' age is lag/mean.",
    ),
    Metric(
        "replay/age_max",
        "versions",
        "Largest age of a replayed rollout; never above replay.reuse.max_age.",
    ),
    Metric("sync/bytes", "bytes", "Size of the published weights."),
    Metric(
        "sync/probe_max_abs_diff",
        "nats",
        "Largest difference between engine and learner in the probe prompt's log-probabilities "
        "after the sync. Proof of delivery: above sync.probe_tolerance the run stops.",
    ),
    Metric(
        "lag/mean",
        "versions",
        "Mean number of updates between the oldest token of a rollout and its use.",
    ),
    Metric("lag/max", "versions", "Largest lag; bounded by rollout.max_lag."),
    Metric("time/step", "seconds", "Wall time of the whole step, evaluation and saving apart."),
    Metric(
        "time/generate",
        "seconds",
        "The step's slowest group, submission to last token, as the rollout worker measured it.",
    ),
    Metric(
        "time/verify",
        "seconds",
        "What the verifier processes spent on the step's rollouts, divided by their number.",
    ),
    Metric(
        "time/allocate",
        "seconds",
        "Deciding how many rollouts each prompt gets; beside the update, not on top of it.",
    ),
    Metric("time/learn", "seconds", "The update inside the slowest learner rank."),
    Metric(
        "time/sync",
        "seconds",
        "Publishing weights, loading them in the slowest engine, and the proof.",
    ),
    Metric(
        "time/overhead",
        "seconds",
        "The step less generate, verify, learn and sync, all measured inside the actors: calls, "
        "copies, records. At least 0; says nothing when max_lag is above 0, "
        "since the phases overlap.",
    ),
    Metric(
        "time/idle_learner",
        "seconds",
        "Learners waiting within the step. High: generation is the bottleneck; add rollout "
        "workers or raise rollout.max_lag.",
    ),
    Metric(
        "time/idle_rollout",
        "seconds",
        "Rollout workers waiting within the step. High: learning is the bottleneck; add ranks "
        "or raise rollout.max_lag.",
    ),
    Metric("time/evaluate", "seconds", "Held-out evaluation after the step."),
    Metric("optimizer_steps", "count", "Optimizer steps since the start of the run."),
    Metric("micro_batches", "count", "Forward passes of each learner rank in the step."),
    Metric(
        "learner/skipped_updates",
        "count",
        "Optimizer steps of the update not taken because a loss or gradient was not finite. Not "
        "0: look into offending/ with rlvr replay-update.",
    ),
)

PATTERNS: tuple[Metric, ...] = (
    Metric(
        "allocation/prompts@k",
        "prompts",
        "Prompts of the step that got k rollouts: the histogram of the allocation.",
    ),
    Metric(
        "eval/SUITE/avg@k",
        "share",
        "Held-out accuracy: mean over prompts of the share of k completions that are right.",
    ),
    Metric(
        "eval/SUITE/pass@k",
        "share",
        "Chance that at least one of k completions is right, without bias from the number "
        "sampled: mean over prompts of 1 - C(n-c, k) / C(n, k).",
    ),
    Metric(
        "eval/SUITE/length_correct",
        "tokens",
        "Mean length of right completions; absent when there are none.",
    ),
    Metric(
        "eval/SUITE/length_wrong",
        "tokens",
        "Mean length of wrong completions; absent when there are none. Far above "
        "length_correct: the token limit cuts answers off.",
    ),
)

_NAMES = frozenset(metric.name for metric in METRICS)
_PATTERN = re.compile(
    r"eval/[A-Za-z0-9_.-]+/((avg|pass)@[1-9]\d*|length_correct|length_wrong)"
    r"|allocation/prompts@[1-9]\d*"
)


def is_registered(name: str) -> bool:
    return name in _NAMES or _PATTERN.fullmatch(name) is not None


def check(record: Mapping[str, float]) -> None:
    """Every name is registered, every value finite, and `step` is there.

    A metric that does not apply to a step is left out of the record, never NaN. Raises
    ValueError for a name, NumericalError for a value.
    """
    if "step" not in record:
        raise ValueError("a record of metrics needs its step")
    for name, value in record.items():
        if not is_registered(name):
            near = difflib.get_close_matches(name, _NAMES, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"{name} is not a registered metric{hint}")
        if not math.isfinite(value):
            raise NumericalError(
                f"{name} is {value} at step {record['step']}",
                "a finite number",
                "lower the learning rate, or look at the last lines of metrics.jsonl",
            )
