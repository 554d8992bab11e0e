"""One training step as a pure function: graded groups in, the rows of one update out.

Works on counts, verdicts and handles only; no token array passes through here. The order is
the contract: what is measured on raw outcomes comes before anything is dropped, and every
rollout gets exactly one fate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.algorithms.advantages import advantages, has_signal
from rlvr_platform.algorithms.collapse import collapse_rate_by_group, collapse_rate_by_rollout
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.types import Fate, Finish, GradedGroup, Outcome, TrainBatch


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """What the policy achieved, before any method selects or drops."""

    reward_mean: float
    """Mean over the valid rollouts; NaN without one."""
    acr_group: float
    """See `collapse_rate_by_group`."""
    acr_rollout: float
    """See `collapse_rate_by_rollout`."""
    verdicts: Counter[Outcome]
    lags: np.ndarray
    """int64 [all rollouts], weight versions between a rollout's birth and this update."""


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """The rows of the update and what became of everything else."""

    batch: TrainBatch
    fates: tuple[np.ndarray, ...]
    """uint8 [G] per group, values of `Fate`."""
    advantages: tuple[np.ndarray, ...]
    """float64 [G] per group; 0 in groups without signal, NaN for invalid rollouts."""
    metrics: dict[str, float]
    """Names of metrics.jsonl; a mean over nothing is absent."""


def compose(
    graded: Sequence[GradedGroup], step: int, version: int, algorithm: AlgorithmConfig
) -> Composition:
    """Decide every rollout's fate and lay out the rows of the update of weights `version`.

    Raises NumericalError when a verdict carries a reward that is not finite.
    """
    valid = [valid_rollouts(group) for group in graded]
    raw = measure(graded, valid, version)
    scored = [
        group_advantages(group.rewards, keep, algorithm)
        for group, keep in zip(graded, valid, strict=True)
    ]
    fates = [group_fates(group.rewards, keep) for group, keep in zip(graded, valid, strict=True)]
    batch = train_batch(graded, fates, scored, step, version)
    return Composition(batch, tuple(fates), tuple(scored), _metrics(graded, fates, raw))


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
    births = [group.summary.first_version.astype(np.int64) for group in graded]
    return Raw(
        reward_mean=float(everything.mean()) if len(everything) else float("nan"),
        acr_group=collapse_rate_by_group(rewards),
        acr_rollout=collapse_rate_by_rollout(rewards),
        verdicts=Counter(verdict.outcome for group in graded for verdict in group.verdicts),
        lags=version - np.concatenate([*births, np.empty(0, np.int64)]),
    )


def group_fates(rewards: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """uint8 [G] of the rewards float64 [G]; siblings without a verdict leave the group."""
    shared = Fate.TRAINED if has_signal(rewards[valid]) else Fate.DROPPED_NO_SIGNAL
    return np.where(valid, shared, Fate.INVALID).astype(np.uint8)


def group_advantages(
    rewards: np.ndarray, valid: np.ndarray, algorithm: AlgorithmConfig
) -> np.ndarray:
    """float64 [G]: advantages among the valid siblings, 0 without signal, NaN where invalid."""
    scored = np.where(valid, 0.0, np.nan)
    if has_signal(rewards[valid]):
        scored[valid] = advantages(rewards[valid], algorithm.advantage, algorithm.std_eps)
    return scored


def train_batch(
    graded: Sequence[GradedGroup],
    fates: Sequence[np.ndarray],
    scored: Sequence[np.ndarray],
    step: int,
    version: int,
) -> TrainBatch:
    """The trained rollouts as rows, in the order of the groups; groups without rows are absent."""
    siblings = [np.flatnonzero(fate == Fate.TRAINED) for fate in fates]
    kept = [index for index, rows in enumerate(siblings) if len(rows)]
    summaries = [graded[index].summary for index in kept]
    rows = [siblings[index] for index in kept]
    lengths = [s.prompt_tokens + s.lengths[r] for s, r in zip(summaries, rows, strict=True)]
    group = np.repeat(np.arange(len(kept)), [len(r) for r in rows]).astype(np.int32)
    return TrainBatch(
        step=step,
        version=version,
        handles=tuple(graded[index].handle for index in kept),
        group=group,
        sibling=_column(rows, np.int32),
        advantage=_column([scored[i][r] for i, r in zip(kept, rows, strict=True)], np.float32),
        weight=np.ones(len(group), np.float32),
        length=_column(lengths, np.int32),
        trained_tokens=_column(
            [s.trained_tokens[r] for s, r in zip(summaries, rows, strict=True)], np.int32
        ),
    )


def _column(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype)


def _metrics(
    graded: Sequence[GradedGroup], fates: Sequence[np.ndarray], raw: Raw
) -> dict[str, float]:
    """Counts are of rollouts and of sampled tokens: trained, dropped and invalid add up."""
    fate = _column(fates, np.uint8)
    tokens = _column([group.summary.trained_tokens for group in graded], np.int64)
    trained = fate == Fate.TRAINED
    values = {
        "reward/mean": raw.reward_mean,
        "acr/group": raw.acr_group,
        "acr/rollout": raw.acr_rollout,
        "rollouts/generated": len(fate),
        "rollouts/trained": trained.sum(),
        "rollouts/dropped": (fate == Fate.DROPPED_NO_SIGNAL).sum(),
        "rollouts/invalid": (fate == Fate.INVALID).sum(),
        "tokens/generated": tokens.sum(),
        "tokens/trained": tokens[trained].sum(),
        "tokens/wasted": tokens[~trained].sum(),
        **{f"verdict/{outcome}": raw.verdicts[outcome] for outcome in Outcome},
        "lag/mean": raw.lags.mean() if len(raw.lags) else float("nan"),
        "lag/max": raw.lags.max() if len(raw.lags) else float("nan"),
    }
    return {name: float(value) for name, value in values.items() if np.isfinite(value)}
