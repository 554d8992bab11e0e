"""Which class judges for which settings. A verifier's module is imported when one is built."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from rlvr_platform.config.base import Section
from rlvr_platform.config.verifier import AnyVerifier
from rlvr_platform.config.verifiers_code import CodeVerifier
from rlvr_platform.config.verifiers_composite import CompositeVerifier
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
from rlvr_platform.verifiers.base import Verifier

CLASSES: Mapping[type[Section], str] = {
    MathVerifier: "math:MathEquivalence",
    NumericVerifier: "numeric:build",
    ExactVerifier: "exact:build",
    CodeVerifier: "code:build",
    ChoiceVerifier: "choice:MultipleChoice",
    RegexVerifier: "regex:RegularExpression",
    JsonSchemaVerifier: "json_schema:JsonSchema",
    FormatVerifier: "format:FormatInstructions",
    CountdownVerifier: "countdown:Countdown",
    GymVerifier: "gym:GymScorer",
    FunctionVerifier: "function:UserFunction",
    EndpointVerifier: "endpoint:Endpoint",
    CompositeVerifier: "composite:Composite",
}
"""Module in this package, and what makes a verifier of the settings there."""


def build_verifier(config: AnyVerifier) -> Verifier:
    """The verifier that `config` describes.

    Raises ConfigError or ValueError when the settings name something that is not there.
    """
    module, _, name = CLASSES[type(config)].partition(":")
    return getattr(importlib.import_module(f"rlvr_platform.verifiers.{module}"), name)(config)
