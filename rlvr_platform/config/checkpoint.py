"""When a run is saved and how much is kept."""

from rlvr_platform.config.base import Section, setting


class CheckpointConfig(Section):
    every_steps: int | None = setting(
        50, "Save every so many steps; unset: only at the end and on interrupt.", ge=1
    )
    keep_last: int = setting(2, "Older checkpoints are removed after a new one is safe.", ge=1)
