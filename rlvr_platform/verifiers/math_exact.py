"""Exact arithmetic on rationals of bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from rlvr_platform.verifiers.math_expression import Node

_MAX_BITS = 200_000
"""Numerators and denominators that exact arithmetic may reach."""


class TooLarge(ArithmeticError):
    """The value cannot be had with bounded work."""


def exact(node: Node) -> Fraction | None:
    """The rational value, when only arithmetic on rationals of bounded size leads to it."""
    try:
        return _exact(node)
    except (TooLarge, ZeroDivisionError):
        return None


def _exact(node: Node) -> Fraction | None:
    if node.op not in _KNOWN:
        return None
    return combined(node, [_exact(arg) for arg in node.args])


def combined(node: Node, values: list[Fraction | None]) -> Fraction | None:
    """The rational value of a node whose operands have these; None when one of them has none, or
    the operation leads elsewhere. Raises TooLarge or ZeroDivisionError."""
    if node.op == "num":
        return node.value
    if node.op not in _KNOWN or any(value is None for value in values):
        return None
    return _small(_arithmetic(node.op, *[value for value in values if value is not None]))


def _arithmetic(op: str, a: Fraction, b: Fraction = Fraction(1)) -> Fraction | None:
    if op == "^":
        return _exact_power(a, b)
    if op == "!":
        return Fraction(math.factorial(int(a))) if a.denominator == 1 and 0 <= a < 3000 else None
    return _RESULTS[op](a, b)


_RESULTS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a, _: -a,
    "abs": lambda a, _: abs(a),
    "floor": lambda a, _: Fraction(math.floor(a)),
    "ceil": lambda a, _: Fraction(math.ceil(a)),
}


_KNOWN = frozenset(("num", "^", "!", *_RESULTS))


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return None
    if abs(exponent) * max(_bits(base), 1) > _MAX_BITS:
        raise TooLarge("power")
    return base ** int(exponent)


def _bits(x: Fraction) -> int:
    return max(abs(x.numerator), x.denominator).bit_length()


def _small(x: Fraction | None) -> Fraction | None:
    if x is not None and _bits(x) > _MAX_BITS:
        raise TooLarge("exact number")
    return x
