"""Advantages, the policy loss, and what it is corrected for."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class KLConfig(Section):
    """Penalty that keeps the policy near the starting model."""

    estimator: Literal["none", "k1", "k2", "k3"] = setting(
        "none",
        "Estimator of KL(policy || reference). Its value is logged; the gradient is the exact "
        "KL gradient for every estimator. none: no reference model is loaded.",
    )
    coefficient: float = setting(0.0, "Weight of the penalty in the loss.", ge=0)


class MismatchConfig(Section):
    """Correction for the engine's log-probabilities differing from the trainer's."""

    mode: Literal["truncated", "bypass"] = setting(
        "truncated",
        "truncated: weight min(old/behaviour, cap) times the clipped ratio policy/old. "
        "bypass: one clipped ratio policy/behaviour. Never both.",
    )
    cap: float = setting(2.0, "Truncation of the importance weight; truncated only.", gt=0)


class AlgorithmConfig(Section):
    advantage: Literal["grpo", "dr_grpo", "rloo"] = setting(
        "grpo",
        "grpo: (r - mean) / (std + std_eps). dr_grpo: r - mean. rloo: n / (n - 1) (r - mean).",
    )
    std_eps: float = setting(1e-6, "Added to the standard deviation; grpo only.", ge=0)
    clip_low: float = setting(0.2, "Ratio clipped below 1 - clip_low.", gt=0, lt=1)
    clip_high: float = setting(0.28, "Ratio clipped above 1 + clip_high (clip-higher).", gt=0)
    dual_clip: float | None = setting(
        None, "Lower bound dual_clip * A on the objective of negative advantages; above 1.", gt=1
    )
    normalisation: Literal["token_mean", "sequence_mean", "constant"] = setting(
        "token_mean",
        "token_mean: every trained token of the step counts the same. sequence_mean: every "
        "completion counts the same. constant: sum over tokens / (rows * constant_length).",
    )
    constant_length: int | None = setting(
        None, "Denominator per row for constant; unset: max_new_tokens. Tokens.", ge=1
    )
    kl: KLConfig = KLConfig()
    mismatch: MismatchConfig = MismatchConfig()
