"""Exact text: the whole completion is the gold answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding


@dataclass(frozen=True, slots=True)
class ExactText:
    """The completion equals the gold text, surrounding white space aside."""

    ignore_case: bool

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        answer = prediction.strip()
        if not answer:
            return Finding(Outcome.NO_ANSWER, "", "empty completion")
        equal = self._canonical(answer) == self._canonical(gold.strip())
        return Finding(Outcome.CORRECT if equal else Outcome.WRONG, answer, "exact text")

    def _canonical(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


def build(config: ExactVerifier) -> ExactText:
    """The verifier of these settings."""
    return ExactText(config.ignore_case)
