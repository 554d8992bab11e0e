"""The policy losses. All tensors are float [N], one entry per trained token.

Tokens that carry no gradient (prompt, padding, tool output) never become an entry, so no
mask can disagree with a denominator here.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from rlvr_platform.algorithms.importance import behaviour_divergence, importance, row_mean
from rlvr_platform.config.algorithm import AlgorithmConfig


@dataclass(frozen=True, slots=True, eq=False)
class PolicyLosses:
    """Per-token losses with gradient, and what explains them, without."""

    loss: Tensor
    """[N] with gradient, to be weighted and summed."""
    importance: Tensor
    """[N] policy / behaviour of each token under every loss, see `Importance.total`."""
    clipped: Tensor
    """bool [N]: the ratio's range was left and decides the gradient. clipped: it is zero. gspo:
    it is zero for the whole row. cispo: it is that of the nearest bound."""
    truncated: Tensor
    """bool [N]: the engine/trainer weight hit its cap; in gspo the row's weight."""
    kl_behaviour: Tensor
    """[N] k3 estimates of KL(behaviour || old), nats."""


def policy_losses(
    logprobs: Tensor,
    old: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    row: Tensor,
    config: AlgorithmConfig,
) -> PolicyLosses:
    """The loss that `config.loss` names, per token and corrected for the engine.

    `row` is int64 [N], which completion a token belongs to. gspo (arXiv 2507.18071) gives every
    token the loss of its row, so that a row's tokens share one ratio, one weight and one clip.
    """
    tokens = importance(logprobs, old, behaviour, config.mismatch)
    split, low, high = tokens, config.clip_low, config.clip_high
    if config.loss == "gspo":
        pool = partial(row_mean, row=row)
        split = importance(logprobs, old, behaviour, config.mismatch, pool)
    if config.loss == "cispo":
        surrogate, clipped = weighted_likelihood(logprobs, split.ratio, advantages, low, high)
    else:
        surrogate, clipped = clipped_surrogate(split.ratio, advantages, low, high, config.dual_clip)
    return PolicyLosses(
        loss=split.weight * surrogate,
        importance=tokens.total,
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


def weighted_likelihood(
    logprobs: Tensor, ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> tuple[Tensor, Tensor]:
    """Loss [N] of CISPO and clip indicator bool [N].

    -clip(ratio, 1 - clip_low, 1 + clip_high) * A * logprobs with the clipped ratio held constant
    (arXiv 2506.13585, eq. 4 and 5): what is clipped is the weight of a token, never its gradient.
    """
    ratio = ratio.detach()
    weight = ratio.clamp(1 - clip_low, 1 + clip_high)
    return -weight * advantages * logprobs, (weight != ratio) & (advantages != 0)
