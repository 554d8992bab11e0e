"""Numbers: the final number of the completion, within a tolerance of the gold number."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any, Literal

import mpmath

from rlvr_platform.config.verifiers_math import NumericVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.answer import final_answer
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.math_evaluate import Undefined, constant
from rlvr_platform.verifiers.math_exact import TooLarge, exact
from rlvr_platform.verifiers.math_expression import Node, NotReadable, number, read_expression
from rlvr_platform.verifiers.math_quantity import SCALES, canonical_unit, read_quantity
from rlvr_platform.verifiers.math_text import normalise
from rlvr_platform.verifiers.text_answer import after_reasoning

_UNSIGNED = r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
# An exponent or a subscript is no number. A minus after a digit, a letter or a closing bracket
# subtracts; elsewhere it is a sign.
_NUMBER = re.compile(
    r"(?:(?<![\w)\]}.^])(?<!\^\{)(?P<sign>[-+])\s?)?\$?(?<![\w.^])(?<![\^_]\{)(?<!\^[-+])"
    r"(?<!\^\{[-+])"
    rf"(?:\\[dt]?frac\s?\{{(?P<above>{_UNSIGNED})\}}\s?\{{(?P<below>{_UNSIGNED})\}}"
    rf"|(?P<value>{_UNSIGNED})(?:\s?/\s?(?P<divisor>{_UNSIGNED}))?)"
    r"(?:\s?(?:\*|\\times|\\cdot)\s?10\s?\^\s?\{?(?P<exponent>[-+]?\d{1,9})\}?)?"
    rf"(?:\s(?P<scale>{'|'.join(SCALES)})\b)?(?P<percent>\s?%|\spercent\b)?"
)
_UNIT = re.compile(
    r"\s*(?:\\(?:text|mathrm)\{\s*)?([a-zA-Z]+(?:\s?(?:/|per)\s?[a-zA-Z]+)?(?:\^?\d)?)"
)
_COMPOSED = re.compile(
    r"[\d)}]\s*[-+*](?=\s*[\d(\\])|\d\s*\^\s*\{?-?\d|\\(?:cdot|times|div|sqrt|pi)(?![a-z])"
    r"|\d\s?[xyznk]\b|[-+]\s*[a-zA-Z]\b"
)
"""What only an expression to evaluate has, and no single number."""
_ALTERNATIVE = re.compile(r"\s*,?\s*(?:or|and|to)\s*", re.IGNORECASE)
_PLAIN = str.maketrans({"\u2212": "-", "\u2013": "-", "\u00a0": " ", "\u202f": " ", "\u00d7": "*"})
_MARKED = ("box", "answer tag", "####", "answer statement")
_UNMARKED = "last number"
_HUNDRED = Decimal(100)
# Wide enough that no literal overflows; untrapped, so that 1/0 is an infinity, not an exception.
_ARITHMETIC = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def build(config: NumericVerifier) -> NumericTolerance:
    """The verifier of these settings."""
    tolerances = config.relative_tolerance, config.absolute_tolerance
    return NumericTolerance(*tolerances, config.percent, config.units)


@dataclass(frozen=True, slots=True)
class NumericTolerance:
    """|answer - gold| <= max(absolute, relative * |gold|)."""

    relative: float
    absolute: float
    percent: Literal["ignore", "scale"] = "ignore"
    units: Literal["ignore", "agree"] = "agree"

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when `gold` is not one number."""
        wanted, unit = _read(gold, self.percent)
        text, rule = _final_text(prediction)
        found = deque(_NUMBER.finditer(text), maxlen=2)
        if not found:
            return Finding(Outcome.NO_ANSWER, "", f"{rule}: no number in it")
        match = found[-1]
        if rule != _UNMARKED and _COMPOSED.search(text):
            return self._evaluated(text, wanted, unit, rule)
        if len(found) == 2 and _undecided(text, found[0], match):
            return Finding(Outcome.WRONG, text[found[0].start() :][:80], f"{rule}: several numbers")
        close = self._close(_value(match, self.percent), wanted)
        agrees = self.units == "ignore" or _units_agree(unit, text[match.end() :])
        outcome = Outcome.CORRECT if close and agrees else Outcome.WRONG
        return Finding(outcome, match[0].strip(), rule)

    def _evaluated(self, text: str, wanted: Decimal, unit: str, rule: str) -> Finding:
        """Of an answer that is arithmetic: 2^6, 3\\cdot 4, \\sqrt{3}."""
        quantity = read_quantity(normalise(text))
        value = _constant(quantity.core, quantity.scale)
        if quantity.percent and self.percent == "scale":
            value = _ARITHMETIC.divide(value, _HUNDRED)
        disagree = self.units == "agree" and unit and quantity.known_unit and unit != quantity.unit
        close = (
            self._close(value, wanted) and not disagree and not (quantity.hedged or quantity.head)
        )
        outcome = Outcome.CORRECT if close else Outcome.WRONG
        return Finding(outcome, text.strip()[:80], rule.replace(_UNMARKED, "evaluated"))

    def _close(self, answer: Decimal, gold: Decimal) -> bool:
        if not answer.is_finite():
            return False
        relative = _ARITHMETIC.multiply(Decimal(self.relative), abs(gold))
        distance = _ARITHMETIC.subtract(answer, gold).copy_abs()
        return distance <= max(Decimal(self.absolute), relative)


def _constant(text: str, scale: Fraction) -> Decimal:
    """The value of an expression; NaN when it has symbols, is too large or cannot be read."""
    try:
        node = Node("*", (read_expression(text), number(scale)))
        value = exact(node)
        if value is not None:
            return _ARITHMETIC.divide(Decimal(value.numerator), Decimal(value.denominator))
        return Decimal(mpmath.nstr(mpmath.mpf(constant(node)), 40))
    except (NotReadable, RecursionError, TooLarge, Undefined, KeyError, TypeError):
        return Decimal("NaN")


def read_number(text: str) -> Decimal:
    """The number that `text` is, with an optional currency sign, percent sign or known unit.

    A percent sign is ignored. Raises ValueError when `text` is anything else.
    """
    return _read(text, "ignore")[0]


def _read(text: str, percent: str) -> tuple[Decimal, str]:
    plain = _simplify(text).strip()
    match = _NUMBER.match(plain)
    rest = plain[match.end() :].strip() if match else ""
    unit, known = canonical_unit(rest) if rest else ("", True)
    value = _value(match, percent) if match and known else Decimal("NaN")
    if not value.is_finite():
        raise ValueError(f"the gold answer {text[:80]!r} is not a number")
    return value, unit


def _final_text(prediction: str) -> tuple[str, str]:
    """The marked final answer, or else the whole completion."""
    answer = final_answer(prediction)
    if answer is None or answer.rule not in _MARKED:
        return _simplify(after_reasoning(prediction)), _UNMARKED
    return _simplify(answer.text).rpartition("=")[2], f"{answer.rule}, last number"


def _undecided(text: str, before: re.Match[str], last: re.Match[str]) -> bool:
    """Whether the last two numbers are alternatives, or nothing but numbers was written."""
    between = text[before.end() : last.start()]
    return bool(_ALTERNATIVE.fullmatch(between)) or (
        not between.strip(" ,;\n") and not _NUMBER.sub("", text).strip(" ,;.\n")
    )


def _units_agree(gold: str, after: str) -> bool:
    match = _UNIT.match(after)
    if not gold or not match:
        return True
    unit, known = canonical_unit(match[1])
    return not known or unit == gold


def _simplify(text: str) -> str:
    return text.translate(_PLAIN).replace("{,}", ",").replace("\\$", "$").replace("\\%", "%")


def _value(match: re.Match[str], percent: str) -> Decimal:
    value = _decimal(match["value"] or match["above"])
    divisor = match["divisor"] or match["below"]
    if divisor:
        value = _ARITHMETIC.divide(value, _decimal(divisor))
    if match["exponent"]:
        value = _ARITHMETIC.scaleb(value, int(match["exponent"]))
    if match["scale"]:
        value = _ARITHMETIC.multiply(value, Decimal(SCALES[match["scale"]]))
    if match["percent"] and percent == "scale":
        value = _ARITHMETIC.divide(value, _HUNDRED)
    return value.copy_negate() if match["sign"] == "-" else value


def _decimal(literal: str) -> Decimal:
    return Decimal(literal.replace(",", ""), _ARITHMETIC)
