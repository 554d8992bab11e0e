"""Adaptive virtual sample policy optimisation, AVSPO: repair collapsed groups (arXiv 2605.21125).

A group whose rewards are all equal has zero advantages. While the collapse rate (ACR) is above an
adaptive threshold, K virtual rewards join the mean and the standard deviation of such a group,
so that its real rollouts get a common advantage: negative when all are wrong, positive when all
are correct. A virtual reward is a number; no token, row or other statistic ever comes from one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from rlvr_platform.algorithms.advantages import SIGNAL_STD, AdvantageKind
from rlvr_platform.config.avspo import Avspo, AvspoConfig, NoAvspo
from rlvr_platform.errors import InputError

Mode = Literal["stratified", "single", "manuscript", "random_partial_credit"]

_SIDES = {"both": (False, True), "all_wrong": (False,), "all_correct": (True,)}
"""Per setting of `rescue`: which groups, False the wrong ones and True the correct ones."""

_STREAM = 2605_21125
"""Keeps these random numbers apart from other methods' of the same seed, step and group."""


@dataclass(frozen=True, slots=True)
class TriggerState:
    """What the trigger remembers between steps."""

    tau: float
    """Threshold that ACR must exceed."""
    acr: float | None
    """Moving average of ACR; None before the first measured step."""
    reward: float | None
    """Mean reward J of the last measured step; None before it."""

    def to_dict(self) -> dict[str, float]:
        """Plain numbers for a checkpoint; what is not measured yet is absent."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, values: dict[str, float]) -> TriggerState:
        """The inverse of `to_dict`. Raises InputError when `values` is nothing of that kind."""
        known = {"tau"} <= set(values) <= {"tau", "acr", "reward"}
        if not known or not all(math.isfinite(value) for value in values.values()):
            raise InputError(
                f"the saved state of AVSPO is {values}",
                "finite numbers: tau, and acr and reward once a step was measured",
                "resume from another checkpoint",
            )
        return cls(values["tau"], values.get("acr"), values.get("reward"))


def initial(config: Avspo) -> TriggerState:
    """The state before the first step."""
    return TriggerState(config.tau, None, None)


def starting_trigger(config: AvspoConfig, saved: dict[str, float]) -> TriggerState | None:
    """The state that a run goes on from, `saved` empty at its start; None without AVSPO."""
    if isinstance(config, NoAvspo):
        return None
    return TriggerState.from_dict(saved) if saved else initial(config)


def smoothed_acr(state: TriggerState, acr: float, config: Avspo) -> float:
    """The moving average of ACR with this step's `acr` in it: what tau is compared with.

    It also decides K, and it is the ACR of the threshold's rule. The first measured step stands
    for itself. NaN when `acr` is, in a step without a reward.
    """
    if acr < 0.0 or acr > 1.0:
        raise ValueError(f"a collapse rate is a share, got {acr}")
    return acr if state.acr is None else config.ema * state.acr + (1.0 - config.ema) * acr


def triggered(state: TriggerState, acr: float, config: Avspo) -> bool:
    """Whether the step with this `acr` rescues groups; not in a step without a reward."""
    return smoothed_acr(state, acr, config) > state.tau


def observe(state: TriggerState, acr: float, reward: float, config: Avspo) -> TriggerState:
    """The state after a step with this `acr` and mean reward J, `reward`, both of raw rewards.

    tau <- clip(tau + eta * sign(J - J_before) * (ACR - tau), tau_min, tau_max), and tau stays in
    the first step, which has no J_before. A step without a reward (both NaN) changes nothing.
    To be called after the step's decisions, which use the threshold of the steps before.
    """
    if math.isnan(acr) and math.isnan(reward):
        return state
    if not (math.isfinite(acr) and math.isfinite(reward)):
        raise ValueError(f"collapse rate {acr} and mean reward {reward} must both be finite")
    smoothed = smoothed_acr(state, acr, config)
    direction = 0.0 if state.reward is None else float(np.sign(reward - state.reward))
    tau = state.tau + config.eta * direction * (smoothed - state.tau)
    return TriggerState(min(max(tau, config.tau_min), config.tau_max), smoothed, reward)


def virtual_count(size: int, acr: float, alpha: float) -> int:
    """K = max(1, min(G, ceil(G * ACR^alpha))), the virtual rewards of a group of G = `size`."""
    # The slack keeps a product that is whole on paper from being rounded up.
    return max(1, min(size, math.ceil(size * acr**alpha - 1e-9)))


def virtual_rewards(
    correct: bool,
    count: int,
    r_lo: float,
    r_hi: float,
    delta: float,
    mode: Mode,
    seed: Sequence[int],
) -> np.ndarray:
    """The virtual rewards, float64 [K], of a group that is all correct or all wrong.

    With k = 1..K = `count`, and D = `delta` * (r_hi - r_lo):
    stratified: r_lo + D (K-k+1)/K for a wrong group, r_hi - D (K-k+1)/K for a correct one.
    single: one, r_hi for a wrong group and r_lo for a correct one; `count` has no say.
    manuscript: r_lo + (r - r_lo) (K-k+1)/K, r the group's reward; r_lo throughout when wrong.
    random_partial_credit: uniform over [r_lo, r_hi), a pure function of `seed`.
    """
    own, other = (r_hi, r_lo) if correct else (r_lo, r_hi)
    ladder = np.arange(count, 0, -1) / count
    match mode:
        case "stratified":
            return own + delta * (other - own) * ladder
        case "single":
            return np.array([other])
        case "manuscript":
            return r_lo + (own - r_lo) * ladder
        case "random_partial_credit":
            return np.random.default_rng([*seed, _STREAM]).uniform(r_lo, r_hi, count)


def rescued_advantage(
    reward: float, size: int, virtual: np.ndarray, kind: AdvantageKind, std_eps: float, ddof: int
) -> float:
    """The common advantage of the G = `size` real rollouts of a group that all got `reward`.

    It is the advantage of `kind` among all N = G + K rewards, the `virtual` float64 [K] included:
    grpo: (reward - mean) / (std + std_eps), std over N - ddof. dr_grpo: reward - mean.
    rloo: reward minus the mean of the N - 1 others.
    0 when the virtual rewards leave the group collapsed.
    """
    offset = virtual - reward
    total, shift = size + len(virtual), float(offset.sum())
    squares = max(0.0, float(offset @ offset) - shift * shift / total)
    if math.sqrt(squares / total) < SIGNAL_STD:
        return 0.0
    if kind == "grpo":
        return -shift / total / (math.sqrt(squares / (total - ddof)) + std_eps)
    return -shift / (total - 1 if kind == "rloo" else total)


def share_scale(rescued: float, mixed: float, max_share: float) -> float:
    """Factor in [0, 1] for rescued advantages, from the sums of |A| over rescued and mixed rows.

    The largest c <= 1 with c x / (c x + M) <= s: c = min(1, s M / ((1 - s) x)). A step without
    mixed rows (M = 0) gets 0: no other factor keeps the share, and 0 is also the limit for small
    M. With s = 1 there is no cap.
    """
    if rescued * (1.0 - max_share) <= max_share * mixed:
        return 1.0
    return max_share * mixed / ((1.0 - max_share) * rescued)


@dataclass(frozen=True, slots=True, eq=False)
class CollapsedGroups:
    """B groups whose rewards are all equal."""

    size: np.ndarray
    """int64 [B], rollouts that would be trained on."""
    reward: np.ndarray
    """float64 [B], their common reward."""
    pull: np.ndarray
    """float64 [B], sum of the weights of these rollouts' rows; `size` when every row weighs 1."""
    group_id: np.ndarray
    """int64 [B], unique in its step and not negative."""


@dataclass(frozen=True, slots=True)
class RescueRule:
    """What stays the same from step to step."""

    config: Avspo
    kind: AdvantageKind
    """How advantages of mixed groups are made."""
    std_eps: float
    r_lo: float
    """Reward of a wrong answer."""
    r_hi: float
    """Reward of a correct answer."""
    seed: int
    """The run's seed; mode random_partial_credit only."""


@dataclass(frozen=True, slots=True, eq=False)
class Rescue:
    """What AVSPO makes of B collapsed groups."""

    advantage: np.ndarray
    """float64 [B], of every row of the group; 0: not rescued."""
    virtual: np.ndarray
    """int64 [B], virtual rewards K; 0: not rescued."""
    scale: float
    """Factor by which the cap on the share shrank all advantages; 1: it did not bind."""
    share: float
    """Rescued rows' share of the sum of weight * |A| over rescued and mixed rows, at most
    max_share."""

    @property
    def rescued(self) -> np.ndarray:
        """bool [B]."""
        return self.virtual > 0


def rescue(
    groups: CollapsedGroups,
    rule: RescueRule,
    state: TriggerState,
    acr: float,
    mixed: float,
    step: int,
) -> Rescue:
    """Advantages of collapsed groups, at a step with the collapse rate `acr` over all its groups.

    `mixed` is the sum of weight * |A| over the fresh rows of mixed groups. Not rescued: every
    group while the trigger is off, groups neither all correct nor all wrong, groups of a single
    rollout, and the side that `config.rescue` leaves out. The cap on a row applies before the cap
    on the share.
    """
    if not (math.isfinite(mixed) and mixed >= 0.0):
        raise ValueError(f"the sum of |A| must be finite and not negative, got {mixed}")
    advantage, virtual = np.zeros(len(groups.size)), np.zeros(len(groups.size), np.int64)
    if triggered(state, acr, rule.config):
        smoothed = smoothed_acr(state, acr, rule.config)
        for members, correct in _alike(groups, rule.config, rule.r_lo, rule.r_hi):
            advantage[members], virtual[members] = _rescue_one(
                int(groups.size[members[0]]),
                correct,
                rule,
                smoothed,
                [rule.seed, step, int(groups.group_id[members[0]])],
            )
    total = float(groups.pull @ np.abs(advantage))
    scale = share_scale(total, mixed, rule.config.max_share)
    if total == 0.0 or scale == 0.0:
        return Rescue(np.zeros_like(advantage), np.zeros_like(virtual), scale, 0.0)
    return Rescue(advantage * scale, virtual, scale, total * scale / (total * scale + mixed))


def _rescue_one(
    size: int, correct: bool, rule: RescueRule, acr: float, seed: Sequence[int]
) -> tuple[float, int]:
    """Advantage, capped for a row, and number of virtual rewards of one group; 0, 0: no rescue."""
    config = rule.config
    count = virtual_count(size, acr, config.alpha)
    virtual = virtual_rewards(correct, count, rule.r_lo, rule.r_hi, config.delta, config.mode, seed)
    reward = rule.r_hi if correct else rule.r_lo
    # The released code, which this mode reproduces, takes the sample's standard deviation.
    ddof = 1 if config.mode == "single" else 0
    advantage = rescued_advantage(reward, size, virtual, rule.kind, rule.std_eps, ddof)
    limit = config.max_abs_advantage
    return max(-limit, min(limit, advantage)), len(virtual) if advantage else 0


def _alike(
    groups: CollapsedGroups, config: Avspo, r_lo: float, r_hi: float
) -> Iterator[tuple[np.ndarray, bool]]:
    """Indices of groups that get the same virtual rewards, and whether they are correct."""
    for correct in _SIDES[config.rescue]:
        extreme = np.abs(groups.reward - (r_hi if correct else r_lo)) < SIGNAL_STD
        chosen = np.flatnonzero(extreme & (groups.size >= 2))
        if config.mode == "random_partial_credit":
            yield from ((chosen[i : i + 1], correct) for i in range(len(chosen)))
        else:
            sizes = groups.size[chosen]
            yield from ((chosen[sizes == n], correct) for n in np.flatnonzero(np.bincount(sizes)))
