"""Which policy a token is credited to. All tensors are float [N], one entry per trained token.

Three log-probabilities exist: `behaviour` (the engine, when it sampled), `old` (the trainer,
before the update; `logprobs.detach()` when the update is a single optimizer step) and
`logprobs` (the trainer, now, with gradient).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rlvr_platform.config.algorithm import MismatchConfig

Pool = Callable[[Tensor], Tensor]
"""[N] log-ratios of tokens to the [N] log-ratios that correct them."""


def each_token(log_ratio: Tensor) -> Tensor:
    """Every token is corrected by its own ratio."""
    return log_ratio


def row_mean(log_ratio: Tensor, row: Tensor) -> Tensor:
    """[N]: each entry replaced by the mean over the entries of its row; `row` is int64 [N].

    The exponential is the length-normalised ratio of whole completions, their geometric mean
    (arXiv 2507.18071). All entries of a row must be here, which `MicroBatch` guarantees.
    """
    _, segment, count = torch.unique(row, return_inverse=True, return_counts=True)
    # GSPO's clip range is 1e-4 wide: float32 sums over thousands of tokens would blur it.
    total = log_ratio.new_zeros(len(count), dtype=torch.float64)
    total = total.index_add(0, segment, log_ratio.double())
    return (total / count)[segment].to(log_ratio.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """weight * ratio estimates policy / behaviour, split into what is clipped and what is not."""

    ratio: Tensor
    """[N] with gradient: what the surrogate clips."""
    weight: Tensor
    """[N] without gradient: multiplies the surrogate."""
    truncated: Tensor
    """bool [N]: where the weight hit its cap."""

    @property
    def total(self) -> Tensor:
        """[N] without gradient: policy / behaviour, truncated but not clipped."""
        return self.weight * self.ratio.detach()


def importance(
    logprobs: Tensor,
    old: Tensor,
    behaviour: Tensor,
    mismatch: MismatchConfig,
    pool: Pool = each_token,
) -> Importance:
    """Correct for the engine in one of two exclusive ways.

    truncated: weight min(old / behaviour, cap) and ratio policy / old.
    bypass: ratio policy / behaviour and weight 1; `old` is not used.
    `pool` applies to both quotients, so that weight and ratio correct the same thing.
    """
    if mismatch.mode == "bypass":
        ratio = pool(logprobs - behaviour).exp()
        return Importance(ratio, ratio.new_ones(ratio.shape), ratio.new_zeros(ratio.shape).bool())
    drift, log_cap = pool((old - behaviour).detach()), math.log(mismatch.cap)
    # Truncation in log space: exp(drift) may overflow where min(exp(drift), cap) is just the cap.
    return Importance(pool(logprobs - old).exp(), drift.clamp(max=log_cap).exp(), drift > log_cap)


def behaviour_divergence(old: Tensor, behaviour: Tensor) -> Tensor:
    """[N] k3 estimates of KL(behaviour || old) from tokens that the behaviour policy sampled."""
    log_ratio = (old - behaviour).detach()
    return log_ratio.expm1() - log_ratio
