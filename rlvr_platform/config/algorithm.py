"""Advantages, the policy loss, and what it is corrected for."""

from typing import Annotated, Literal

from pydantic import Field

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


class OverlongKept(Section):
    """Completions that the token limit cut are trained on like any other."""

    kind: Literal["none"] = "none"


class OverlongMasked(Section):
    """Completions that the token limit cut count in their group's statistics, not in the loss."""

    kind: Literal["mask"] = "mask"


class OverlongPenalised(Section):
    """Rewards fall with every token near the limit: DAPO's soft overlong punishment."""

    kind: Literal["penalty"] = "penalty"
    cache: int = setting(
        doc="The penalty grows from 0 to `weight` over the last `cache` completion tokens before "
        "rollout.max_new_tokens. DAPO: 4096 of 20480. Tokens.",
        ge=1,
    )
    weight: float = setting(
        0.5, "Reward lost at the limit. DAPO: 1 of rewards -1 and 1, so 0.5 of 0 and 1.", gt=0
    )


AnyOverlong = Annotated[
    OverlongKept | OverlongMasked | OverlongPenalised, Field(discriminator="kind")
]


class AlgorithmConfig(Section):
    advantage: Literal["grpo", "dr_grpo", "rloo", "reinforce_pp"] = setting(
        "grpo",
        "grpo: (r - mean) / (std + std_eps). dr_grpo: r - mean. rloo: n / (n - 1) (r - mean). "
        "reinforce_pp: r - mean, then normalised over the whole batch (REINFORCE++ with baseline).",
    )
    std_eps: float = setting(
        1e-6, "Added to the standard deviation; grpo and reinforce_pp only.", ge=0
    )
    loss: Literal["clipped", "gspo", "cispo"] = setting(
        "clipped",
        "clipped: -min(ratio A, clip(ratio) A) of each token. gspo: the same, with one ratio for "
        "a completion, the geometric mean over its trained tokens; sequence_mean is the paper's "
        "normalisation. cispo: -clip(ratio) A log policy with the clipped ratio held constant, so "
        "that a clipped token keeps a gradient. The bounds are of another size for each loss.",
    )
    clip_low: float = setting(
        0.2,
        "Ratio clipped below 1 - clip_low. clipped: 0.2. gspo: 3e-4 published. cispo: 1, no lower "
        "bound, as published.",
        gt=0,
        le=1,
    )
    clip_high: float = setting(
        0.28,
        "Ratio clipped above 1 + clip_high. clipped: 0.28 (clip-higher). gspo: 4e-4 published. "
        "cispo: 4, a weight of at most 5 (arXiv 2510.13786); its own paper gives no number.",
        gt=0,
    )
    dual_clip: float | None = setting(
        None,
        "Lower bound dual_clip * A on the objective of negative advantages; above 1; clipped only.",
        gt=1,
    )
    normalisation: Literal["token_mean", "sequence_mean", "constant"] = setting(
        "token_mean",
        "token_mean: every trained token of the step counts the same. sequence_mean: every "
        "completion counts the same. constant: sum over tokens / (rows * constant_length).",
    )
    constant_length: int | None = setting(
        None, "Denominator per row for constant; unset: max_new_tokens. Tokens.", ge=1
    )
    overlong: AnyOverlong = setting(
        OverlongKept(), "What becomes of completions near or at rollout.max_new_tokens."
    )
    kl: KLConfig = KLConfig()
    mismatch: MismatchConfig = MismatchConfig()
