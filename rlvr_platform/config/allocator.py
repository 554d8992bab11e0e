"""How the rollout budget of a step is spread over its prompts."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class AllocatorConfig(Section):
    kind: Literal["uniform"] = setting(
        "uniform", "uniform: every prompt gets rollouts_per_prompt rollouts."
    )
