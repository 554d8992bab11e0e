"""Which policy a token is credited to. All tensors are float [N], one entry per trained token.

Three log-probabilities exist: `behaviour` (the engine, when it sampled), `old` (the trainer,
before the update; `logprobs.detach()` when the update is a single optimizer step) and
`logprobs` (the trainer, now, with gradient).
"""

import math
from dataclasses import dataclass

from torch import Tensor

from rlvr_platform.config.algorithm import MismatchConfig


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
    logprobs: Tensor, old: Tensor, behaviour: Tensor, mismatch: MismatchConfig
) -> Importance:
    """Correct for the engine in one of two exclusive ways.

    truncated: weight min(old / behaviour, cap) and ratio policy / old.
    bypass: ratio policy / behaviour and weight 1; `old` is not used.
    """
    if mismatch.mode == "bypass":
        ratio = (logprobs - behaviour).exp()
        return Importance(ratio, ratio.new_ones(ratio.shape), ratio.new_zeros(ratio.shape).bool())
    drift, log_cap = (old - behaviour).detach(), math.log(mismatch.cap)
    # Truncation in log space: exp(drift) may overflow where min(exp(drift), cap) is just the cap.
    return Importance((logprobs - old).exp(), drift.clamp(max=log_cap).exp(), drift > log_cap)


def behaviour_divergence(old: Tensor, behaviour: Tensor) -> Tensor:
    """[N] k3 estimates of KL(behaviour || old) from tokens that the behaviour policy sampled."""
    log_ratio = (old - behaviour).detach()
    return log_ratio.expm1() - log_ratio
