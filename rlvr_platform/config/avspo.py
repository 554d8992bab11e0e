"""What becomes of collapsed groups: groups whose rewards are all equal."""

from typing import Annotated, Literal

from pydantic import Field

from rlvr_platform.config.base import Section, setting


class NoAvspo(Section):
    """Collapsed groups are dropped; the filtering baseline."""

    kind: Literal["none"] = "none"


class Avspo(Section):
    """Collapsed groups are rescued by virtual rewards (AVSPO, arXiv 2605.21125).

    Virtual rewards enter the mean and the standard deviation of a group and nothing else.
    """

    kind: Literal["avspo"] = "avspo"
    mode: Literal["stratified", "single", "manuscript", "random_partial_credit"] = setting(
        "stratified",
        "Virtual rewards of a group. stratified: K evenly spaced within delta of the group's "
        "reward. single: one, at the other end of the reward range (the paper's released code). "
        "manuscript: K evenly spaced between the group's reward and the lowest, as an early "
        "text has it; never rescues a wrong group, for fidelity only. random_partial_credit: K "
        "uniform over the reward range; a baseline of the paper's ablation. Paper: stratified.",
    )
    rescue: Literal["both", "all_wrong", "all_correct"] = setting(
        "both", "Which collapsed groups are rescued; the others are dropped. Paper: both."
    )
    alpha: float = setting(
        0.5,
        "Exponent of K = ceil(G * ACR^alpha), the number of virtual rewards of a group of G, "
        "within 1 and G; 0: always G; no effect in mode single. Paper: 0.5.",
        ge=0,
    )
    delta: float = setting(
        0.1,
        "How far virtual rewards reach from the group's reward; mode stratified only. Cancels "
        "under algorithm.advantage=grpo, scales the advantage under dr_grpo and rloo. Share of "
        "the reward range. Paper: 0.1, of rewards in {0, 1}.",
        gt=0,
        le=1,
    )
    tau: float = setting(
        0.5, "First threshold: groups are rescued while ACR is above it. Paper: 0.5.", ge=0, le=1
    )
    eta: float = setting(
        0.01,
        "Step size by which the threshold follows ACR when the mean reward rises, and flees it "
        "when the mean reward falls; 0: fixed threshold. Paper: 0.01.",
        ge=0,
        le=1,
    )
    tau_min: float = setting(0.1, "Lowest threshold. Paper: 0.1.", ge=0, le=1)
    tau_max: float = setting(0.9, "Highest threshold. Paper: 0.9.", ge=0, le=1)
    max_abs_advantage: float = setting(
        1.0,
        "Cap on |A| of a rescued row, in units of the advantage. 1 is what a row of an evenly "
        "split group gets under algorithm.advantage=grpo, and is never reached there; it binds "
        "when rewards under dr_grpo or rloo are large. Paper: no cap.",
        gt=0,
    )
    max_share: float = setting(
        0.25,
        "Cap on the rescued rows' share of the step's sum of |A|: above it they are all scaled "
        "down. A step without mixed groups rescues nothing unless this is 1, which means no "
        "cap. Ours, because virtual rewards prefer no answer to another. Paper: no cap.",
        gt=0,
        le=1,
    )
    ema: float = setting(
        0.8,
        "Weight of the past in the moving average of ACR that drives threshold and K; 0: this "
        "step's ACR alone. 0.8 cuts the noise of ACR to a third, as if a step had 9 times its "
        "groups: of 16 groups, from 0.12 to 0.04. Paper: no smoothing is mentioned.",
        ge=0,
        lt=1,
    )


AvspoConfig = Annotated[NoAvspo | Avspo, Field(discriminator="kind")]
