"""The clipped policy loss. All tensors are float [N], one entry per trained token.

Tokens that carry no gradient (prompt, padding, tool output) never become an entry, so no
mask can disagree with a denominator here.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rlvr_platform.algorithms.importance import behaviour_divergence, importance
from rlvr_platform.config.algorithm import AlgorithmConfig


@dataclass(frozen=True, slots=True, eq=False)
class PolicyLosses:
    """Per-token losses with gradient, and what explains them, without."""

    loss: Tensor
    """[N] with gradient, to be weighted and summed."""
    importance: Tensor
    """[N] policy / behaviour, see `Importance.total`."""
    clipped: Tensor
    """bool [N]: the gradient is zero because the ratio left its range."""
    truncated: Tensor
    """bool [N]: the engine/trainer weight hit its cap."""
    kl_behaviour: Tensor
    """[N] k3 estimates of KL(behaviour || old), nats."""


def policy_losses(
    logprobs: Tensor, old: Tensor, behaviour: Tensor, advantages: Tensor, config: AlgorithmConfig
) -> PolicyLosses:
    """The surrogate corrected for the engine: weight * clipped(ratio, advantage) per token."""
    split = importance(logprobs, old, behaviour, config.mismatch)
    surrogate, clipped = clipped_surrogate(
        split.ratio, advantages, config.clip_low, config.clip_high, config.dual_clip
    )
    return PolicyLosses(
        loss=split.weight * surrogate,
        importance=split.total,
        clipped=clipped,
        truncated=split.truncated,
        kl_behaviour=behaviour_divergence(old, behaviour),
    )


def clipped_surrogate(
    ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> tuple[Tensor, Tensor]:
    """Loss [N] and clip indicator bool [N].

    -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A) (arXiv 1707.06347, with the
    separate upper bound of arXiv 2503.14476). For A < 0 the loss is bounded by -dual_clip * A,
    since ratio * A has no bound of its own there (arXiv 1912.09729).
    """
    outside = torch.where(advantages > 0, ratio > 1 + clip_high, ratio < 1 - clip_low)
    clipped = outside & (advantages != 0)
    bounded = ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = torch.maximum(-ratio * advantages, -bounded * advantages)
    if dual_clip is None:
        return loss, clipped
    beyond = (advantages < 0) & (ratio > dual_clip)
    return torch.where(beyond, -dual_clip * advantages, loss), clipped | beyond
