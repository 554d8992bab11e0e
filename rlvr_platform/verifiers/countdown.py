"""Countdown: an arithmetic expression over given numbers, valued with exact rationals."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rlvr_platform.config.verifiers_more import CountdownVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.text_answer import text_answer

_LONGEST = 1000
"""Characters of an expression; bounds the nesting too."""
_LARGEST_BITS = 4096
"""Of the numerator and denominator of any value, which bounds the time."""
_DIGIT = re.compile(r"[0-9]")
_LITERAL = re.compile(r"[0-9]{1,100}(?:\.[0-9]{1,100})?")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_NOTATION = (
    (re.compile(r"\\(?:left|right|,|;|!|:| )"), ""),
    (re.compile(r"\\(?:times|cdot|ast)(?![a-zA-Z])|[\u00d7\u00b7\u22c5\u2217]"), "*"),
    (re.compile(r"\\div(?![a-zA-Z])|[\u00f7\u2215\u2044]"), "/"),
    (re.compile(r"[\u2212\u2013]"), "-"),
    (re.compile(r"\\[()\[\]]|\$"), " "),
    (re.compile(r"\{,\}|(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\^"), "**"),
    (re.compile(r"[\[{]"), "("),
    (re.compile(r"[\]}]"), ")"),
)
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}
_COMPUTE: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: _power(a, b),
}


class BadExpression(Exception):
    """Why a text has no value."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A valued expression."""

    value: Fraction
    numbers: Counter[Fraction]
    """The number literals in it, each without its sign."""


class Countdown:
    """The expression's value is the gold number, and it uses the given numbers as told."""

    def __init__(self, config: CountdownVerifier) -> None:
        self._config = config
        self._operators = frozenset(config.operators)

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when the gold answer or the given numbers are not numbers."""
        target = _number(gold)
        given = None if self._config.use == "any_numbers" else self._given(options)
        text = text_answer(prediction).text.rstrip(".")
        if not _DIGIT.search(text):
            return Finding(Outcome.NO_ANSWER, "", "no expression")
        try:
            expression = evaluate(text, self._operators)
        except BadExpression as error:
            return Finding(Outcome.WRONG, text, str(error))
        if given is not None and (problem := self._misuse(expression.numbers, given)):
            return Finding(Outcome.WRONG, text, problem)
        if expression.value != target:
            return Finding(Outcome.WRONG, text, f"its value is {_shown(expression.value)}")
        return Finding(Outcome.CORRECT, text, "exact value")

    def _given(self, options: Mapping[str, Any]) -> Counter[Fraction]:
        column = self._config.column
        if not isinstance(options.get(column), list | tuple) or not options[column]:
            raise ValueError(f"option {column!r} is {options.get(column)!r:.80}, wanted numbers")
        return Counter(abs(_number(str(number))) for number in options[column])

    def _misuse(self, used: Counter[Fraction], given: Counter[Fraction]) -> str:
        if extra := used - given:
            return f"{_shown(next(iter(extra)))} is not given, or not so often"
        missing = given - used
        if missing and self._config.use == "exactly_once":
            return f"{_shown(next(iter(missing)))} is not used"
        return ""


def evaluate(text: str, operators: frozenset[str]) -> Expression:
    """The value of `text`, which may end in "= its value".

    Only numbers, parentheses and `operators` are followed, on the syntax tree; nothing is run.
    Raises BadExpression for everything else, a division by zero included.
    """
    sides = [_Evaluator(side, operators).result() for side in _plain(text).split("=", maxsplit=2)]
    if any(side.value != sides[0].value for side in sides):
        raise BadExpression("the sides of the equation differ")
    return sides[0]


def _plain(text: str) -> str:
    if len(text) > _LONGEST:
        raise BadExpression(f"longer than {_LONGEST} characters")
    inner = 1
    while inner:  # Fractions from the inside out.
        text, inner = _FRACTION.subn(r"((\1)/(\2))", text)
    for pattern, replacement in _NOTATION:
        text = pattern.sub(replacement, text)
    if not text.isascii():
        raise BadExpression("not an arithmetic expression")
    return text


class _Evaluator:
    """Values the syntax tree of one source text."""

    def __init__(self, source: str, operators: frozenset[str]) -> None:
        self._source, self._operators = " ".join(source.split()), operators
        self._numbers: Counter[Fraction] = Counter()

    def result(self) -> Expression:
        try:
            tree = ast.parse(self._source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise BadExpression("not an arithmetic expression") from None
        return Expression(self._value(tree), self._numbers)

    def _value(self, node: ast.expr) -> Fraction:
        if isinstance(node, ast.Constant):
            return self._literal(self._source[node.col_offset : node.end_col_offset])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            self._require("-")
            return -self._value(node.operand)
        if not isinstance(node, ast.BinOp):
            raise BadExpression("something other than numbers, operators and parentheses")
        symbol = self._require(_OPERATORS.get(type(node.op), type(node.op).__name__))
        return _bounded(_apply(symbol, self._value(node.left), self._value(node.right)))

    def _literal(self, text: str) -> Fraction:
        # The text and not the node's value, since a float is not exact.
        if not _LITERAL.fullmatch(text):
            raise BadExpression(f"{text[:40]} is not a plain number")
        value = Fraction(text)
        self._numbers[value] += 1
        return value

    def _require(self, symbol: str) -> str:
        if symbol not in self._operators:
            raise BadExpression(f"the operator {symbol} is not allowed")
        return symbol


def _apply(symbol: str, left: Fraction, right: Fraction) -> Fraction:
    try:
        return _COMPUTE[symbol](left, right)
    except ZeroDivisionError:
        raise BadExpression("a division by zero") from None


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise BadExpression("a power that is not whole")
    if abs(exponent) * _bits(base) > _LARGEST_BITS:
        raise BadExpression("a power that is too large")
    return base ** int(exponent)


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > _LARGEST_BITS:
        raise BadExpression("a value that is too large")
    return value


def _number(text: str) -> Fraction:
    plain = text.strip().replace(",", "")
    if not re.fullmatch(r"[-+]?\d{1,100}(?:\.\d{1,100}|/\d{1,100})?", plain):
        raise ValueError(f"{text[:80]!r} is not a number")
    return Fraction(plain)


def _shown(value: Fraction) -> str:
    return str(value)[:60]
