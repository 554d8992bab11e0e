"""Instructions on the form of a completion, each checked by a program.

The instructions are those of IFEval (Zhou et al., 2023), and the forms that training asks for: a
reasoning block, a box, JSON. `format_checks.py` holds the checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_platform.config.verifiers_more import FormatVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.format_checks import Check, read_check

_SHOWN = 200


class FormatInstructions:
    """Correct when every check holds."""

    def __init__(self, config: FormatVerifier) -> None:
        """Raises ValueError for an unknown check or parameter in the settings."""
        self._partial = config.credit == "partial"
        self._checks = [read_check(entry) for entry in config.checks]

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when `gold` is to hold the checks and does not."""
        checks = self._checks or _parse(gold)
        failed = [check.name for check in checks if not check.holds(prediction)]
        score = 1 - len(failed) / len(checks) if self._partial else None
        text = prediction.strip()[:_SHOWN]
        if not text:
            return Finding(Outcome.NO_ANSWER, "", "empty completion")
        if failed:
            return Finding(Outcome.WRONG, text, f"not met: {', '.join(failed)}", score)
        return Finding(Outcome.CORRECT, text, "all checks hold", score)


def _parse(gold: str) -> Sequence[Check]:
    try:
        entries = json.loads(gold)
    except ValueError as error:
        raise ValueError(f"the gold answer {gold[:80]!r} holds no JSON checks: {error}") from None
    entries = entries if isinstance(entries, list) else [entries]
    if not entries:
        raise ValueError("the gold answer is an empty list of checks")
    return [read_check(entry) for entry in entries]
