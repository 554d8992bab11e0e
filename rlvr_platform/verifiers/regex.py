"""Regular expressions: the final answer matches a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlvr_platform.config.verifiers_more import RegexVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.text_answer import after_reasoning, text_answer


class RegularExpression:
    """Python's `re`. A pattern that backtracks for ever is ended by the pool: a timeout."""

    def __init__(self, config: RegexVerifier) -> None:
        """Raises ValueError when the pattern of the settings is none."""
        self._config = config
        self._pattern = self._compile(config.pattern) if config.pattern else None

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when `gold` is to be the pattern and is none."""
        pattern = self._pattern or self._compile(gold)
        text = self._text(prediction)
        if not text:
            return Finding(Outcome.NO_ANSWER, "", "no final answer")
        found = pattern.fullmatch(text) if self._config.match == "full" else pattern.search(text)
        if found is None:
            return Finding(Outcome.WRONG, text, "no match")
        return Finding(Outcome.CORRECT, found[0], f"{self._config.match} match")

    def _text(self, prediction: str) -> str:
        if self._config.read == "completion":
            return after_reasoning(prediction)
        return text_answer(prediction).text

    def _compile(self, pattern: str) -> re.Pattern[str]:
        if not pattern:
            raise ValueError("the gold answer is empty, wanted a regular expression")
        try:
            return re.compile(pattern, re.IGNORECASE if self._config.ignore_case else 0)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{pattern[:80]!r} is no regular expression: {error}") from None
