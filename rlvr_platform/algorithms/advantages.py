"""Advantages: how much better a completion did than its siblings."""

from typing import Literal

import numpy as np

AdvantageKind = Literal["grpo", "dr_grpo", "rloo", "reinforce_pp"]

SIGNAL_STD = 1e-6
"""Below this population standard deviation a group's rewards count as equal."""


def has_signal(rewards: np.ndarray) -> bool:
    """Whether the rewards, float64 [G], differ enough to learn from.

    True when the population standard deviation is at least 1e-6 (arXiv 2605.21125);
    False for fewer than two rewards.
    """
    return len(rewards) >= 2 and bool(np.std(rewards) >= SIGNAL_STD)


def advantages(rewards: np.ndarray, kind: AdvantageKind, std_eps: float) -> np.ndarray:
    """Advantages float64 [G] of the rewards float64 [G] of one group, G >= 2.

    grpo: (r - mean) / (std + std_eps), std with ddof=0, the population's (arXiv 2402.03300).
    dr_grpo: r - mean (arXiv 2503.20783).
    rloo: G / (G - 1) (r - mean), which is r minus the mean of the siblings (arXiv 2402.14740).
    reinforce_pp: r - mean, the first half of REINFORCE++ with baseline (arXiv 2501.03262); the
    second half is `normalise_batch`.
    """
    size = len(rewards)
    if size < 2 or not np.isfinite(rewards).all():
        raise ValueError(f"advantages need two or more finite rewards, got {rewards}")
    centred = rewards - rewards.mean()
    if kind == "grpo":
        return centred / (rewards.std() + std_eps)
    if kind == "rloo":
        return centred * (size / (size - 1))
    return centred


def normalise_batch(advantages: np.ndarray, std_eps: float) -> np.ndarray:
    """(A - mean) / (std + std_eps) over all rows of a batch: float64 [R] to float64 [R].

    The global normalisation of REINFORCE++ (arXiv 2501.03262), std with ddof=0. Unlike a group's
    own std, the batch's hardly depends on any one row, so easy and hard prompts keep their
    proportions. All zero when the rows do not differ.
    """
    if not np.isfinite(advantages).all():
        raise ValueError(f"a batch is normalised over finite advantages, got {advantages}")
    if not has_signal(advantages):
        return np.zeros(len(advantages))
    return (advantages - advantages.mean()) / (advantages.std() + std_eps)
