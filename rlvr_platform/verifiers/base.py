"""What a verifier is, and how outcomes become rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

from rlvr_platform.config.verifier import VerifierConfig
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
        if self.score is not None:
            share(self.score)


def share(score: Any) -> float:
    """`score` as a share of the reward. Raises ValueError unless it is a number from 0 to 1."""
    number = isinstance(score, Real) and not isinstance(score, bool)
    if not (number and 0 <= score <= 1):
        raise ValueError(f"the score is {score!r:.80}, wanted a number from 0 to 1")
    return float(score)


class Verifier(Protocol):
    """A pure function of its arguments, run in a process that may be killed at any time."""

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Judge one completion.

        Raising any exception means that no verdict could be reached, e.g. because the gold
        answer cannot be read; the pool turns it into an `error` verdict.
        """
        ...


def reward_of(outcome: Outcome, config: VerifierConfig, score: float | None = None) -> float | None:
    """What a finding pays; None for timeout and error, which are not wrong answers."""
    if outcome in (Outcome.TIMEOUT, Outcome.ERROR):
        return None
    share = float(outcome is Outcome.CORRECT) if score is None else score
    # This form is exact at both ends.
    return (1 - share) * config.reward_wrong + share * config.reward_correct
