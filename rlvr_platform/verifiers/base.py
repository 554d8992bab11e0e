"""What a verifier is, how one is built, and how outcomes become rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rlvr_platform.config.verifier import (
    AnyVerifier,
    ExactVerifier,
    MathVerifier,
    NumericVerifier,
    VerifierConfig,
)
from rlvr_platform.types import Outcome


@dataclass(frozen=True, slots=True)
class Finding:
    """What a verifier says about one completion: correct, wrong or no_answer."""

    outcome: Outcome
    extracted: str
    """The answer as it stands in the completion, empty when there is none."""
    rule: str
    """The rule that decided."""
    score: float | None = None
    """Share of the reward, in [0, 1]; None: all of it when correct, else nothing."""

    def __post_init__(self) -> None:
        """Raise ValueError for a score that is no share, NaN among them."""
        if self.score is None:
            return
        number = isinstance(self.score, float | int) and not isinstance(self.score, bool)
        if not (number and 0 <= self.score <= 1):
            raise ValueError(f"the score is {self.score!r}, wanted a number from 0 to 1")


class Verifier(Protocol):
    """A pure function of its arguments, run in a process that may be killed at any time."""

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Judge one completion.

        Raising any exception means that no verdict could be reached, e.g. because the gold
        answer cannot be read; the pool turns it into an `error` verdict.
        """
        ...


def build_verifier(config: AnyVerifier) -> Verifier:
    """The verifier that `config` describes. Only the math verifier imports math-verify."""
    if isinstance(config, MathVerifier):
        from rlvr_platform.verifiers.math import MathEquivalence

        return MathEquivalence()
    if isinstance(config, NumericVerifier):
        from rlvr_platform.verifiers.numeric import NumericTolerance

        return NumericTolerance(config.relative_tolerance, config.absolute_tolerance)
    assert isinstance(config, ExactVerifier)
    from rlvr_platform.verifiers.exact import ExactText

    return ExactText(config.ignore_case)


def reward_of(outcome: Outcome, config: VerifierConfig, score: float | None = None) -> float | None:
    """What a finding pays; None for timeout and error, which are not wrong answers."""
    if outcome in (Outcome.TIMEOUT, Outcome.ERROR):
        return None
    share = float(outcome is Outcome.CORRECT) if score is None else score
    # This form is exact at both ends.
    return (1 - share) * config.reward_wrong + share * config.reward_correct
