"""One training step as a pure function: graded groups in, the rows of one update out.

Works on counts, verdicts and handles only; no token array passes through here. The order is
the contract. Raw outcomes are measured before anything is selected, dropped or repaired, then

    down-sample (PODS) -> advantages of what is kept -> rescue (AVSPO) -> fates -> rows
    -> with replay: the fresh rows beside, or in one pool with, rollouts of earlier steps

and every rollout gets exactly one fate. See docs/methods.md for the rulings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvr_platform.algorithms.advantages import advantages, has_signal, normalise_batch
from rlvr_platform.algorithms.avspo import (
    CollapsedGroups,
    Rescue,
    RescueRule,
    TriggerState,
    rescue,
)
from rlvr_platform.algorithms.avspo import observe as adapt
from rlvr_platform.algorithms.downsampling import downsample
from rlvr_platform.algorithms.overlong import masked_rollouts, shaped_rewards
from rlvr_platform.batching.assembly import (
    column,
    concatenate,
    drawn_rows,
    equal_prompts,
    fresh_rows,
    restrict,
)
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.config.allocator import VipConfig
from rlvr_platform.config.avspo import Avspo
from rlvr_platform.config.downsampling import Pods
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.replay import PrioritisedReuse
from rlvr_platform.outcomes import Raw, measure, valid_rollouts
from rlvr_platform.replay.experience import priority_weights
from rlvr_platform.replay.records import Draw
from rlvr_platform.types import Fate, GradedGroup, Outcome, TrainBatch

TRAINED = (Fate.TRAINED, Fate.RESCUED)


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """The rows of the update and what became of everything else."""

    batch: TrainBatch
    fates: tuple[np.ndarray, ...]
    """uint8 [G] per fresh group, values of `Fate`."""
    advantages: tuple[np.ndarray, ...]
    """float64 [G] per fresh group; 0 where there is no signal, NaN for invalid rollouts and for
    those left out by down-sampling."""
    priorities: tuple[np.ndarray, ...]
    """float64 [G] per fresh group, what replay draws by; NaN for rollouts it does not store.
    Empty without replay."""
    group_ids: np.ndarray
    """int64 [B], of the fresh groups."""
    trigger: TriggerState | None
    """AVSPO's state for the next step; None without AVSPO."""
    metrics: dict[str, float]
    """Names of metrics.jsonl; a mean over nothing is absent."""

    @property
    def storable(self) -> int:
        """Fresh rows that replay may store: trained, and not by a rescue."""
        return int(sum((fate == Fate.TRAINED).sum() for fate in self.fates))


def compose(
    graded: Sequence[GradedGroup],
    step: int,
    version: int,
    trigger: TriggerState | None,
    config: ExperimentConfig,
) -> Composition:
    """Decide every fresh rollout's fate and lay out the rows of the update of weights `version`.

    Raises NumericalError when a verdict carries a reward that is not finite.
    """
    valid = [valid_rollouts(group) for group in graded]
    raw = measure(graded, valid, version)
    groups = [_group(group, ok, config) for group, ok in zip(graded, valid, strict=True)]
    chosen = select(groups, config)
    scored = group_advantages(groups, chosen, config.algorithm)
    rescued = _rescue(groups, chosen, scored, raw, step, trigger, config)
    if rescued is not None:
        scored = _with_rescued(scored, chosen, rescued.advantage)
    fates = [
        group_fates(group, mask, own)
        for group, mask, own in zip(groups, chosen, scored, strict=True)
    ]
    batch = fresh_rows(graded, [np.isin(f, TRAINED) for f in fates], scored, step, version)
    if isinstance(config.allocator, VipConfig):
        batch = equal_prompts(batch)
    return Composition(
        batch=batch,
        fates=tuple(fates),
        advantages=tuple(scored),
        priorities=_priorities(groups, fates, config),
        group_ids=_group_ids(groups),
        trigger=_adapt(trigger, raw, config),
        metrics=_metrics(graded, fates, raw, batch) | _rescue_metrics(rescued, trigger),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """What the methods see of one graded group; arrays have shape [G]."""

    graded: GradedGroup
    valid: np.ndarray
    """bool: has a verdict and was not aborted."""
    mixed: bool
    """Whether the raw rewards of the valid siblings differ: the group did not collapse."""
    rewards: np.ndarray
    """float64, rewards as advantages see them, after `algorithm.overlong`; NaN without verdict."""
    masked: np.ndarray
    """bool: leaves the loss, and only the loss, under `algorithm.overlong`."""


def _group(graded: GradedGroup, valid: np.ndarray, config: ExperimentConfig) -> _Group:
    longest, overlong = config.rollout.max_new_tokens, config.algorithm.overlong
    return _Group(
        graded=graded,
        valid=valid,
        mixed=has_signal(graded.rewards[valid]),
        rewards=shaped_rewards(graded.rewards, graded.summary.lengths, longest, overlong),
        masked=masked_rollouts(graded.summary.finish, overlong),
    )


def _group_ids(groups: Sequence[_Group]) -> np.ndarray:
    return np.array([group.graded.summary.group_id for group in groups], np.int64)


def select(groups: Sequence[_Group], config: ExperimentConfig) -> list[np.ndarray]:
    """PODS: which valid siblings stay, bool [G] per group; all of them without down-sampling."""
    pods = config.downsampling
    if not isinstance(pods, Pods):
        return [group.valid for group in groups]
    candidates = [group.rewards[group.valid] for group in groups]
    kept = downsample(candidates, pods.keep, pods.rule, config.seed, _group_ids(groups))
    chosen = [np.zeros(len(group.valid), bool) for group in groups]
    for mask, group, indices in zip(chosen, groups, kept, strict=True):
        mask[np.flatnonzero(group.valid)[indices]] = True
    return chosen


def group_advantages(
    groups: Sequence[_Group], chosen: Sequence[np.ndarray], algorithm: AlgorithmConfig
) -> list[np.ndarray]:
    """float64 [G] per group: advantages among the chosen siblings, 0 without signal, else NaN.

    A group whose raw rewards are equal has no signal, whatever a length penalty adds to them:
    it would teach nothing but length.
    """
    scored = [np.where(mask, 0.0, np.nan) for mask in chosen]
    parts = [
        (own, group.rewards, mask)
        for own, group, mask in zip(scored, groups, chosen, strict=True)
        if group.mixed and has_signal(group.rewards[mask])
    ]
    for own, rewards, mask in parts:
        own[mask] = advantages(rewards[mask], algorithm.advantage, algorithm.std_eps)
    if algorithm.advantage == "reinforce_pp":
        _normalise_over_batch([(own, mask) for own, _, mask in parts], algorithm.std_eps)
    return scored


def _normalise_over_batch(parts: Sequence[tuple[np.ndarray, np.ndarray]], std_eps: float) -> None:
    """Turn advantages [G] into their REINFORCE++ form where the mask beside them is True."""
    everything = normalise_batch(column([own[mask] for own, mask in parts], np.float64), std_eps)
    ends = np.cumsum([np.count_nonzero(mask) for _, mask in parts], dtype=np.int64)
    for (own, mask), end in zip(parts, ends, strict=True):
        own[mask] = everything[end - np.count_nonzero(mask) : end]


def _rescue(
    groups: Sequence[_Group],
    chosen: Sequence[np.ndarray],
    scored: Sequence[np.ndarray],
    raw: Raw,
    step: int,
    trigger: TriggerState | None,
    config: ExperimentConfig,
) -> Rescue | None:
    """AVSPO's advantages, one per group, 0 where it does not act; None without AVSPO.

    A group that lost its spread to down-sampling did not collapse and is not rescued.
    """
    if trigger is None or not isinstance(config.avspo, Avspo) or np.isnan(raw.acr_group):
        return None
    trained = [mask & ~group.masked for group, mask in zip(groups, chosen, strict=True)]
    size = np.array([np.count_nonzero(mask) for mask in trained], np.int64)
    absolute = np.array(
        [np.abs(own[mask]).sum() for own, mask in zip(scored, trained, strict=True)]
    )
    # Under VIP every group pulls equally hard, see `equal_prompts`; else every row does.
    weight = 1.0 / np.maximum(size, 1) if isinstance(config.allocator, VipConfig) else 1.0
    mixed = np.array([group.mixed for group in groups], bool)
    rewards = [group.graded.rewards[group.valid] for group in groups]
    collapsed = CollapsedGroups(
        size=np.where(mixed, 0, size),
        reward=np.array([own.mean() if len(own) else np.nan for own in rewards]),
        pull=np.where(mixed, 0.0, size * weight),
        group_id=_group_ids(groups),
    )
    rule = RescueRule(
        config.avspo,
        config.algorithm.advantage,
        config.algorithm.std_eps,
        config.verifier.reward_wrong,
        config.verifier.reward_correct,
        config.seed,
    )
    return rescue(collapsed, rule, trigger, raw.acr_group, float((absolute * weight).sum()), step)


def _with_rescued(
    scored: Sequence[np.ndarray], chosen: Sequence[np.ndarray], rescued: np.ndarray
) -> list[np.ndarray]:
    """Give the chosen siblings of rescued groups their common advantage."""
    return [
        np.where(mask, value, np.nan) if value else own
        for own, mask, value in zip(scored, chosen, rescued, strict=True)
    ]


def group_fates(group: _Group, chosen: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """uint8 [G], values of `Fate`; `chosen` bool [G], `scored` float64 [G].

    A group that is dropped as a whole gives its reason to all its valid siblings; down-sampling
    is the reason only where the group is trained on.
    """
    if not np.nan_to_num(scored).any():
        return np.where(group.valid, Fate.DROPPED_NO_SIGNAL, Fate.INVALID).astype(np.uint8)
    trained = Fate.TRAINED if group.mixed else Fate.RESCUED
    kept = np.where(group.masked, Fate.DROPPED_OVERLONG, trained)
    fates = np.where(chosen, kept, Fate.DOWN_SAMPLED)
    return np.where(group.valid, fates, Fate.INVALID).astype(np.uint8)


def _priorities(
    groups: Sequence[_Group], fates: Sequence[np.ndarray], config: ExperimentConfig
) -> tuple[np.ndarray, ...]:
    """What replay draws by, from the advantages among all valid siblings.

    Among the kept ones alone, PODS would make them nearly all equal.
    """
    reuse = config.replay.reuse
    if not isinstance(reuse, PrioritisedReuse):
        return ()
    valid = [group.valid for group in groups]
    whole = group_advantages(groups, valid, config.algorithm)
    spread = [float(np.std(g.rewards[g.valid])) if g.valid.any() else 0.0 for g in groups]
    return tuple(
        np.where(fate == Fate.TRAINED, priority_weights(reuse.priority, own, std), np.nan)
        for own, std, fate in zip(whole, spread, fates, strict=True)
    )


def _adapt(trigger: TriggerState | None, raw: Raw, config: ExperimentConfig) -> TriggerState | None:
    if trigger is None or not isinstance(config.avspo, Avspo) or np.isnan(raw.acr_group):
        return trigger
    return adapt(trigger, raw.acr_group, raw.reward_by_prompt, config.avspo)


def replay_rows(fresh: Composition, reuse: PrioritisedReuse) -> int:
    """Rollouts to draw beside the fresh ones; rescued rows do not count as fresh."""
    return round(reuse.ratio * fresh.storable)


def pool_rows(fresh: Composition, reuse: PrioritisedReuse) -> int:
    """Rollouts to draw from the pool: as many as an anchored update would have."""
    return fresh.storable + replay_rows(fresh, reuse)


def anchored(fresh: Composition, drawn: Draw) -> Composition:
    """All fresh rows beside the drawn ones, which replace none of them (arXiv 2606.04560)."""
    batch = concatenate(fresh.batch, drawn_rows(drawn, fresh.batch.step, fresh.batch.version))
    return replace(fresh, batch=batch, metrics=fresh.metrics | _replay_metrics(batch, drawn.ages))


def pooled(fresh: Composition, drawn: Draw) -> Composition:
    """Only rows drawn from a pool that holds the fresh ones too, and the rescued rows, which are
    never stored. Before replay starts, the fresh rows alone. The ablation of the anchor.
    """
    if drawn.rows == 0:
        return replace(fresh, metrics=fresh.metrics | _replay_metrics(fresh.batch, drawn.ages))
    fates = tuple(
        np.where((fate == Fate.TRAINED) & ~taken, Fate.POOLED, fate).astype(np.uint8)
        for fate, taken in zip(fresh.fates, _drawn_again(fresh, drawn), strict=True)
    )
    trained = column([fate[np.isin(fate, TRAINED)] for fate in fresh.fates], np.uint8)
    rescued = restrict(fresh.batch, trained == Fate.RESCUED)
    batch = concatenate(rescued, drawn_rows(drawn, fresh.batch.step, fresh.batch.version))
    old = ~np.isin(drawn.group_ids[drawn.group], fresh.group_ids)
    own_tokens = batch.trained_tokens.sum() - drawn.trained_tokens[old].sum()
    metrics = fresh.metrics | _fate_metrics(fates) | _replay_metrics(batch, drawn.ages[old])
    metrics["tokens/wasted"] = metrics["tokens/generated"] - float(own_tokens)
    return replace(fresh, batch=batch, fates=fates, metrics=metrics)


def _drawn_again(fresh: Composition, drawn: Draw) -> list[np.ndarray]:
    """bool [G] per fresh group: which of its rollouts the draw took."""
    taken = [np.zeros(len(fate), bool) for fate in fresh.fates]
    place = {group_id: index for index, group_id in enumerate(fresh.group_ids.tolist())}
    group_ids = drawn.group_ids[drawn.group].tolist()
    for group_id, sibling in zip(group_ids, drawn.sibling.tolist(), strict=True):
        if group_id in place:
            taken[place[group_id]][sibling] = True
    return taken


def _fate_metrics(fates: Sequence[np.ndarray]) -> dict[str, float]:
    """How many rollouts of this step came to which end; they add up to those generated."""
    fate = column(fates, np.uint8)
    dropped = (Fate.DROPPED_NO_SIGNAL, Fate.DROPPED_OVERLONG)
    return {
        "rollouts/generated": float(len(fate)),
        "rollouts/trained": float((fate == Fate.TRAINED).sum()),
        "rollouts/rescued": float((fate == Fate.RESCUED).sum()),
        "rollouts/down_sampled": float((fate == Fate.DOWN_SAMPLED).sum()),
        "rollouts/dropped": float(np.isin(fate, dropped).sum()),
        "rollouts/pooled": float((fate == Fate.POOLED).sum()),
        "rollouts/invalid": float((fate == Fate.INVALID).sum()),
    }


def _metrics(
    graded: Sequence[GradedGroup], fates: Sequence[np.ndarray], raw: Raw, batch: TrainBatch
) -> dict[str, float]:
    tokens = column([group.summary.trained_tokens for group in graded], np.int64)
    learned = int(batch.trained_tokens.sum())
    values = {
        "reward/mean": raw.reward_mean,
        "acr/group": raw.acr_group,
        "acr/rollout": raw.acr_rollout,
        "tokens/generated": tokens.sum(),
        "tokens/trained": learned,
        "tokens/wasted": tokens.sum() - learned,
        **{f"verdict/{outcome}": raw.verdicts[outcome] for outcome in Outcome},
        "lag/mean": raw.lags.mean() if len(raw.lags) else float("nan"),
        "lag/max": raw.lags.max() if len(raw.lags) else float("nan"),
    }
    finite = {name: float(value) for name, value in values.items() if np.isfinite(value)}
    return finite | _fate_metrics(fates)


def _rescue_metrics(rescued: Rescue | None, trigger: TriggerState | None) -> dict[str, float]:
    """What AVSPO did, under the threshold it decided by."""
    if rescued is None or trigger is None:
        return {}
    return {
        "avspo/threshold": trigger.tau,
        "avspo/groups": float(rescued.rescued.sum()),
        "avspo/virtual": float(rescued.virtual.sum()),
        "avspo/share": rescued.share,
        "avspo/scale": rescued.scale,
    }


def _replay_metrics(batch: TrainBatch, ages: np.ndarray) -> dict[str, float]:
    """What was replayed; `ages` int64 [replayed rows], in weight versions."""
    metrics = {
        "rollouts/replayed": float(len(ages)),
        "tokens/trained": float(batch.trained_tokens.sum()),
    }
    if len(ages):
        metrics |= {"replay/age_mean": float(ages.mean()), "replay/age_max": float(ages.max())}
    return metrics
