"""The central buffer actor."""

from rlvr_platform.config.base import Section, setting


class ReplayConfig(Section):
    capacity_groups: int = setting(
        4096,
        "Groups held at most. Steps within rollout.max_lag must fit: a smaller value is an error, "
        "found before the run starts.",
        ge=1,
    )
    take_timeout_s: float = setting(
        900.0,
        "Deadline for a step's groups to arrive; past it the run stops and names those missing. "
        "Seconds.",
        gt=0,
    )
