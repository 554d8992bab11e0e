"""Several verifiers as one: their weighted mean is the score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_platform.config.verifiers_composite import CompositeVerifier
from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding, Verifier
from rlvr_platform.verifiers.registry import build_verifier

_INVALID = (Outcome.TIMEOUT, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    verifier: Verifier
    weight: float
    """Share of the score; all parts' sum to 1."""
    gold_column: str

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        try:
            return self.verifier.verify(prediction, self._gold(gold, options), options)
        except Exception as error:
            raise VerifierError(f"part {self.name}: {type(error).__name__}: {error}") from error

    def _gold(self, gold: str, options: Mapping[str, Any]) -> str:
        own = options.get(self.gold_column) if self.gold_column else gold
        if not isinstance(own, str):
            raise ValueError(f"option {self.gold_column!r} is {own!r:.80}, wanted text")
        return own


class Composite:
    """No verdict of any part is no verdict at all; a missing share is never taken for a zero."""

    def __init__(self, config: CompositeVerifier) -> None:
        """Raises ConfigError when `outcome_from` names no part."""
        if config.outcome_from and config.outcome_from not in config.parts:
            raise ConfigError(
                f"outcome_from={config.outcome_from!r} is no part",
                f"one of {', '.join(config.parts)}",
            )
        total = sum(part.weight for part in config.parts.values())
        self._outcome_from = config.outcome_from
        self._parts = [
            _Part(name, build_verifier(part.use), part.weight / total, part.gold_column)
            for name, part in config.parts.items()
        ]

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises VerifierError that names the part which could reach no verdict."""
        findings: dict[str, Finding] = {}
        for part in self._parts:
            found = findings[part.name] = part.verify(prediction, gold, options)
            if found.outcome in _INVALID:
                return Finding(found.outcome, "", f"part {part.name}: {found.rule}")
        shares = [part.weight * _score(findings[part.name]) for part in self._parts]
        extracted = findings[self._outcome_from or self._parts[0].name].extracted
        rule = "; ".join(
            f"{name} {found.outcome} ({found.rule})" for name, found in findings.items()
        )
        return Finding(self._outcome(findings), extracted, rule, min(1.0, sum(shares)))

    def _outcome(self, findings: Mapping[str, Finding]) -> Outcome:
        if self._outcome_from:
            return findings[self._outcome_from].outcome
        outcomes = {found.outcome for found in findings.values()}
        return outcomes.pop() if len(outcomes) == 1 else Outcome.WRONG


def _score(finding: Finding) -> float:
    return float(finding.outcome is Outcome.CORRECT) if finding.score is None else finding.score
