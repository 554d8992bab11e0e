"""Numbers: the last number of the completion, within a tolerance of the gold number."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
# A minus after a digit, a letter or a closing bracket subtracts; elsewhere it is a sign.
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}.])(?P<sign>[-+])\s?)?\$?(?<![\w.])(?P<value>{_UNSIGNED})"
    rf"(?:\s?/\s?(?P<divisor>{_UNSIGNED}))?"
)
_PLAIN = str.maketrans({"\u2212": "-", "\u2013": "-", "\u00a0": " ", "\u202f": " "})
# Wide enough that no literal overflows; untrapped, so that 1/0 is an infinity, not an exception.
_ARITHMETIC = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


@dataclass(frozen=True, slots=True)
class NumericTolerance:
    """|answer - gold| <= max(absolute, relative * |gold|); a percent sign is ignored."""

    relative: float
    absolute: float

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when `gold` is not one number."""
        wanted = read_number(gold)
        found = deque(_NUMBER.finditer(_simplify(prediction)), maxlen=1)
        if not found:
            return Finding(Outcome.NO_ANSWER, "", "no number in the completion")
        close = self._close(_value(found[0]), wanted)
        outcome = Outcome.CORRECT if close else Outcome.WRONG
        return Finding(outcome, found[0][0].strip(), "last number")

    def _close(self, answer: Decimal, gold: Decimal) -> bool:
        if not answer.is_finite():
            return False
        relative = _ARITHMETIC.multiply(Decimal(self.relative), abs(gold))
        distance = _ARITHMETIC.subtract(answer, gold).copy_abs()
        return distance <= max(Decimal(self.absolute), relative)


def read_number(text: str) -> Decimal:
    """The number that `text` is, with an optional currency or percent sign.

    Raises ValueError when it is anything else.
    """
    match = _NUMBER.fullmatch(_simplify(text).strip().removesuffix("%").strip())
    value = _value(match) if match else Decimal("NaN")
    if not value.is_finite():
        raise ValueError(f"the gold answer {text[:80]!r} is not a number")
    return value


def _simplify(text: str) -> str:
    return text.translate(_PLAIN).replace("{,}", ",").replace("\\$", "$").replace("\\%", "%")


def _value(match: re.Match[str]) -> Decimal:
    value = _decimal(match["value"])
    if match["divisor"]:
        value = _ARITHMETIC.divide(value, _decimal(match["divisor"]))
    return value.copy_negate() if match["sign"] == "-" else value


def _decimal(literal: str) -> Decimal:
    return Decimal(literal.replace(",", ""), _ARITHMETIC)
