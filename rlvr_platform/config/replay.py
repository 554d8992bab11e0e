"""The central buffer actor, and what it keeps for reuse."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rlvr_platform.config.base import Section, setting


class NoReuse(Section):
    """Every rollout is trained on in one step only."""

    kind: Literal["none"] = "none"


class PrioritisedReuse(Section):
    """Replay of single rollouts by |advantage|, as in arXiv 2606.04560.

    The age limit with its value 10, the |advantage| priority and training on all fresh rows
    beside the replayed ones are the paper's. The values of ratio, alpha, start_step and
    capacity_rollouts, and drawing without replacement, come from an independent
    re-implementation that cites the paper's tables. max_gib is ours.
    """

    kind: Literal["prioritised"] = "prioritised"
    ratio: float = setting(
        0.5, "Replayed rows per fresh row of a step (re-implementation).", gt=0, allow_inf_nan=False
    )
    alpha: float = setting(
        0.5,
        "A rollout is drawn in proportion to (priority + 1e-6) ** alpha; 0 draws uniformly "
        "(re-implementation).",
        ge=0,
        le=4,
    )
    max_age: int | None = setting(
        10,
        "Oldest age that stays, tau_max; older rollouts leave. Weight versions since the tokens "
        "were generated (paper). null: no limit, with eviction=capacity only.",
        ge=0,
    )
    start_step: int = setting(20, "First step that replays (re-implementation).", ge=1)
    capacity_rollouts: int = setting(
        30_000,
        "Rollouts kept at most; the oldest leave. A backstop: the age limit should act first "
        "(re-implementation).",
        ge=1,
    )
    max_gib: float = setting(
        4.0,
        "Memory of the kept groups' tokens, texts and log-probabilities; the oldest leave. "
        "About 17 bytes a token: 4 GiB hold 30000 rollouts of 8000 tokens. GiB.",
        gt=0,
        allow_inf_nan=False,
    )
    priority: Literal["advantage", "group_std", "uniform"] = setting(
        "advantage",
        "What is drawn by. advantage: |advantage| (paper), among all valid siblings before any "
        "down-sampling (ours). group_std: the group's reward deviation, the same for all its "
        "siblings. uniform: nothing. The last two are the ablation.",
    )
    composition: Literal["anchored", "pool"] = setting(
        "anchored",
        "anchored: all fresh rows beside the replayed ones (paper). pool: the update is drawn "
        "from fresh and stored rows alike (ablation).",
    )
    eviction: Literal["age", "capacity"] = setting(
        "age",
        "age: by max_age, capacity as a backstop (paper). capacity: by capacity alone, needs "
        "max_age=null (ablation).",
    )

    @model_validator(mode="after")
    def _eviction_has_its_limit(self) -> Self:
        if self.eviction == "age" and self.max_age is None:
            raise ValueError("eviction=age needs max_age; set it, or set eviction=capacity")
        if self.eviction == "capacity" and self.max_age is not None:
            raise ValueError("eviction=capacity ignores max_age; set max_age=null as well")
        return self


ReuseConfig = Annotated[NoReuse | PrioritisedReuse, Field(discriminator="kind")]


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
    reuse: ReuseConfig = NoReuse()
