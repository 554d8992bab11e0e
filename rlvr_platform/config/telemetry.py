"""What is recorded."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class TelemetryConfig(Section):
    rollouts: Literal["all", "none"] = setting(
        "all", "all: every rollout with verdict and fate is written to rollouts/."
    )
    tensorboard: bool = setting(True, "Also write tensorboard/ for the metrics.")
