"""How many rollouts of a group are trained on, and which."""

from typing import Annotated, Literal

from pydantic import Field

from rlvr_platform.algorithms.downsampling import LEAST_KEPT, Rule
from rlvr_platform.config.base import Section, setting


class NoDownsampling(Section):
    """Every rollout of a group is trained on."""

    kind: Literal["none"] = "none"


class Pods(Section):
    """Train on `keep` rollouts of each group, chosen by their rewards (arXiv 2504.13818)."""

    kind: Literal["pods"] = "pods"
    rule: Rule = setting(
        "max_variance",
        "max_variance: the subset with the largest variance of rewards, the method. Baselines: "
        "random; max_reward: the highest; percentile: evenly spaced ranks of the sorted rewards.",
    )
    keep: int = setting(
        doc="Rollouts of a group that are kept, m; a group with no more than that stays whole. The "
        "paper keeps 16 of 64, 8 of 32 and 32 of 128. Rollouts.",
        ge=LEAST_KEPT,
    )


DownsamplingConfig = Annotated[NoDownsampling | Pods, Field(discriminator="kind")]
