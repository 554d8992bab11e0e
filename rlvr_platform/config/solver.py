"""How the allocation of rollouts is solved for."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlvr_platform.config.base import Section, setting


class ClosedFormSolver(Section):
    """Closed-form relaxation, rounded to the exact optimum. About a millisecond a thousand
    prompts, all objectives."""

    kind: Literal["closed_form"] = "closed_form"


class GreedySolver(Section):
    """One rollout after the other to the prompt it helps most. Same result, slower: the reference
    that the others are checked against."""

    kind: Literal["greedy"] = "greedy"


class SourceShare(Section):
    """How much of each step's rollouts goes to the prompts of one data source."""

    kind: Literal["source_share"] = "source_share"
    source: str = setting(doc="Name of the data source.", min_length=1)
    minimum: float = setting(0.0, "Least share of the step's rollouts.", ge=0, le=1)
    maximum: float = setting(1.0, "Largest share of the step's rollouts.", ge=0, le=1)

    @model_validator(mode="after")
    def _ordered(self) -> "SourceShare":
        if self.minimum > self.maximum:
            raise ValueError(
                f"minimum={self.minimum} is above maximum={self.maximum} for source {self.source}"
            )
        return self


class TokenBudget(Section):
    """A limit on the tokens a step is expected to generate, beside its number of rollouts."""

    kind: Literal["token_budget"] = "token_budget"
    tokens: float = setting(
        doc="Expected completion tokens of all rollouts of a step, at most. Tokens.", gt=0
    )


AnyConstraint = Annotated[SourceShare | TokenBudget, Field(discriminator="kind")]


class CvxpySolver(Section):
    """Convex program through cvxpy, rounded by an integer program: the way to add constraints."""

    kind: Literal["cvxpy"] = "cvxpy"
    constraints: tuple[AnyConstraint, ...] = setting(
        (), "Constraints that every step's allocation keeps."
    )
    deadline_s: float = setting(
        10.0,
        "Longest time for each of the two programs; a thousand prompts take about 0.3. Seconds.",
        gt=0,
    )


AnySolver = Annotated[ClosedFormSolver | GreedySolver | CvxpySolver, Field(discriminator="kind")]
