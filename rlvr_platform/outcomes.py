"""What the policy achieved in a step: raw outcomes, before any method selects, drops or repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.algorithms.advantages import has_signal
from rlvr_platform.algorithms.collapse import flat_statistics
from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.types import Finish, GradedGroup, GradedGroups, Observation, Outcome


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """Statistics of the raw outcomes."""

    reward_mean: float
    """Mean over the valid rollouts; NaN without one."""
    reward_by_prompt: float
    """J: mean over prompts of the prompt's mean reward; NaN without a valid rollout."""
    acr_group: float
    """ACR: share of the groups with a verdict whose rewards are all equal; NaN without one."""
    acr_rollout: float
    """Share of the valid rollouts that sit in collapsed groups; NaN without a valid rollout."""
    verdicts: Counter[Outcome]
    lags: np.ndarray
    """int64 [all rollouts], weight versions between a rollout's birth and this update."""


def valid_rollouts(group: GradedGroup) -> np.ndarray:
    """bool [G]: has a verdict and was not aborted. No verdict is not a reward of zero."""
    for verdict in group.verdicts:
        if verdict.reward is not None and not np.isfinite(verdict.reward):
            raise NumericalError(
                f"group {group.summary.group_id} has the reward {verdict.reward} ({verdict.rule})",
                "a finite reward, or an outcome of timeout or error",
                "fix the verifier, or its configured rewards",
            )
    return np.isfinite(group.rewards) & (group.summary.finish != Finish.ABORT)


def measure(graded: Sequence[GradedGroup], valid: Sequence[np.ndarray], version: int) -> Raw:
    """Statistics of the raw outcomes; `valid` is bool [G] per group."""
    rewards = [group.rewards[keep] for group, keep in zip(graded, valid, strict=True)]
    everything = np.concatenate([*rewards, np.empty(0)])
    groups = flat_statistics(everything, np.array([len(r) for r in rewards], np.int64))
    births = [group.summary.first_version.astype(np.int64) for group in graded]
    return Raw(
        reward_mean=float(everything.mean()) if len(everything) else float("nan"),
        reward_by_prompt=groups.mean_reward,
        acr_group=groups.rate_by_group,
        acr_rollout=groups.rate_by_rollout,
        verdicts=Counter(verdict.outcome for group in graded for verdict in group.verdicts),
        lags=version - np.concatenate([*births, np.empty(0, np.int64)]),
    )


def observe(graded: Sequence[GradedGroup], verifier: VerifierConfig) -> Observation:
    """What the allocator's predictor learns from: verdicts of every prompt, nothing else."""
    low, high = verifier.reward_wrong, verifier.reward_correct
    valid = [valid_rollouts(group) for group in graded]
    rewards = [group.rewards[keep] for group, keep in zip(graded, valid, strict=True)]
    lengths = [group.summary.lengths[keep] for group, keep in zip(graded, valid, strict=True)]
    return Observation(
        prompts=np.array([group.summary.prompt_index for group in graded], np.int64),
        successes=np.array([((r - low) / (high - low)).sum() for r in rewards], np.float64),
        counts=np.array([len(r) for r in rewards], np.int64),
        tokens=np.array([own.sum() for own in lengths], np.int64),
    )


def groups_with_signal(graded: GradedGroups) -> int:
    """How many of the groups have valid verdicts that differ."""
    finished = graded.finished
    groups = (
        GradedGroup(summary, verdicts, finished.handle)
        for summary, verdicts in zip(finished.summaries, graded.verdicts, strict=True)
    )
    return sum(has_signal(group.rewards[valid_rollouts(group)]) for group in groups)
