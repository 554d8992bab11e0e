"""Settings of a verdict made of several verifiers' verdicts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rlvr_platform.config.base import Section, setting
from rlvr_platform.config.verifiers_code import CodeVerifier
from rlvr_platform.config.verifiers_math import MathVerifier, NumericVerifier
from rlvr_platform.config.verifiers_more import (
    ChoiceVerifier,
    CountdownVerifier,
    EndpointVerifier,
    ExactVerifier,
    FormatVerifier,
    FunctionVerifier,
    GymVerifier,
    JsonSchemaVerifier,
    RegexVerifier,
)

Single = (
    MathVerifier
    | NumericVerifier
    | ExactVerifier
    | ChoiceVerifier
    | RegexVerifier
    | JsonSchemaVerifier
    | FormatVerifier
    | CountdownVerifier
    | CodeVerifier
    | GymVerifier
    | FunctionVerifier
    | EndpointVerifier
)
SingleVerifier = Annotated[Single, Field(discriminator="kind")]


class WeightedVerifier(Section):
    """One part of a composite."""

    use: SingleVerifier = setting(doc="The verifier.")
    weight: float = setting(1.0, "Its share of the score, relative to the others'.", gt=0)
    gold_column: str = setting(
        "", "Option column that is this part's reference answer; empty: the record's own."
    )


class CompositeVerifier(Section):
    """The weighted mean of several verifiers' scores."""

    kind: Literal["composite"] = "composite"
    parts: dict[str, WeightedVerifier] = setting(
        doc="The verifiers by a name of yours.", min_length=1
    )
    outcome_from: str = setting(
        "",
        "Part whose outcome is the verdict's, which the counts of correct answers go by; empty: "
        "correct when every part is.",
    )
