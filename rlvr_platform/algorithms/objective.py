"""The loss of one micro-batch, and the sums that explain it."""

from __future__ import annotations

import torch
from torch import Tensor

from rlvr_platform.algorithms.kl import kl_penalty
from rlvr_platform.algorithms.losses import policy_losses
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.types import TokenSums


def objective(
    logprobs: Tensor,
    entropy: Tensor,
    old: Tensor,
    behaviour: Tensor,
    advantage: Tensor,
    weight: Tensor,
    row: Tensor,
    reference: Tensor | None,
    config: AlgorithmConfig,
) -> tuple[Tensor, TokenSums]:
    """Scalar loss with gradient, sum of weight * token loss, and its sums.

    All tensors are [N], one entry per trained token; `row` is int64, the completion it belongs
    to. `reference` holds the reference policy's log-probabilities when `config.kl` asks for them.
    """
    losses = policy_losses(logprobs, old, behaviour, advantage, row, config)
    token_loss, kl = losses.loss, torch.zeros_like(behaviour)
    if reference is not None and config.kl.estimator != "none":
        kl = kl_penalty(logprobs, reference, losses.importance, config.kl.estimator)
        token_loss = token_loss + config.kl.coefficient * kl
    loss = (weight * token_loss).sum()
    columns = [loss, entropy, losses.kl_behaviour, kl, losses.clipped, losses.truncated]
    sums = torch.stack([column.detach().double().sum() for column in columns])
    return loss, TokenSums(len(logprobs), *sums.tolist())
