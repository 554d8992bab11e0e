"""When a run is saved and how much is kept."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class CheckpointConfig(Section):
    every_steps: int | None = setting(
        50, "Save every so many steps; unset: only at the end and on interrupt.", ge=1
    )
    keep_last: int = setting(2, "Older checkpoints are removed after a new one is safe.", ge=1)
    keep_best: int = setting(
        0, "So many of the best by best_metric at their step are kept besides.", ge=0
    )
    best_metric: str = setting(
        "reward/mean",
        "What keep_best goes by: a name of metrics.jsonl, such as eval/SUITE/avg@k. A checkpoint "
        "whose step has no value is not among the best.",
    )
    best_mode: Literal["max", "min"] = setting("max", "Whether high or low values are good.")
