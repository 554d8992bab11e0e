"""Equality of rational functions by their residues at random points (Schwartz 1980, Zippel 1979).

Costs a multiplication of small integers for each operation, whatever the numbers and exponents.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from rlvr_platform.verifiers.math_exact import TooLarge, combined
from rlvr_platform.verifiers.math_expression import Node

_POINTS = 2
_BITS = 127
_EXPONENT_BITS = 4096
"""Of exponents that are worked out."""
_DEFINED = frozenset(("^", "!", "binom", "mod", "abs", "floor", "ceil"))
"""Operations that have a value for all operands but 0; a factorial for natural numbers."""
_CONSTANTS = frozenset(("pi", "e", "i"))


class NotRational(ArithmeticError):
    """The tree is no quotient of polynomials, or has a pole at this point."""


def same_rational_function(a: Node, b: Node, names: frozenset[str]) -> bool:
    """Whether two quotients of polynomials with rational coefficients are the same.

    Wrong with a probability of at most degree / 2**126 a point. Raises NotRational.
    """
    for trial in range(_POINTS):
        point = {name: _residue_of_symbol(name, trial) for name in names}
        residues = _Residues(point)
        if residues.of(a) != residues.of(b):
            return False
    return True


def same_formally(a: Node, b: Node) -> bool:
    """Whether two trees without symbols are the same by the rules of arithmetic alone, whatever
    the values of what is too large to evaluate: 1 + 9^{9^{9^9}} and 9^{9^{9^9}} + 1."""
    residues = _Atoms()
    try:
        return residues.of(a) == residues.of(b)
    except NotRational:
        return False


@cache
def _prime() -> int:
    """Chosen in each process anew: nobody can write an expression that is 0 modulo it."""
    from sympy import nextprime

    return int(nextprime(secrets.randbits(_BITS) | 1 << (_BITS - 1)))


@cache
def _residue_of_symbol(name: str, trial: int) -> int:
    return secrets.randbelow(_prime() - 2) + 2


class _Residues:
    """Residues of trees where the symbols have these values."""

    def __init__(self, point: Mapping[str, int]) -> None:
        self._point = point

    def of(self, node: Node) -> int:
        prime = _prime()
        if node.op == "num":
            return node.value.numerator * _inverse(node.value.denominator) % prime
        if node.op == "sym":
            return self._point[node.name]
        if node.op == "^":
            return self._power(node)
        if node.op == "neg":
            return -self.of(node.args[0]) % prime
        if node.op not in ("+", "*", "/"):
            return self._other(node)
        left, right = map(self.of, node.args)
        if node.op == "+":
            return (left + right) % prime
        return left * (right if node.op == "*" else _inverse(right)) % prime

    def _power(self, node: Node) -> int:
        base, exponent = node.args
        literal = exponent.args[0] if exponent.op == "neg" else exponent
        if literal.op != "num" or literal.value.denominator != 1:
            return self._other(node)
        return _power(self.of(base), int(literal.value) * (-1 if exponent.op == "neg" else 1))

    def _other(self, node: Node) -> int:
        raise NotRational(node.op)


class _Atoms(_Residues):
    """What is no rational operation becomes an indeterminate: one for each operation and operands,
    where equal residues stand for equal operands."""

    def __init__(self) -> None:
        super().__init__({})
        self._atoms: dict[object, int] = defaultdict(lambda: secrets.randbelow(_prime()))
        self._exact: dict[int, Fraction | None] = {}

    def _other(self, node: Node) -> int:
        if node.op not in _DEFINED and node.name not in _CONSTANTS:
            raise NotRational(node.op)
        if (value := self._value(node)) is not None:
            return value.numerator * _inverse(value.denominator) % _prime()
        if node.op == "!" and not self._is_natural(node.args[0]):
            raise NotRational("!")
        operands = tuple(map(self.of, node.args))
        if node.op == "^" and (exponent := self._small_integer(node.args[1])) is not None:
            return _power(operands[0], exponent)
        if operands and 0 in (operands[0], operands[-1]):
            raise NotRational("of 0")
        if node.op == "binom":
            n, k = operands
            return self._atoms["binom", n, frozenset((k, (n - k) % _prime()))]
        return self._atoms[node.op, node.name, operands]

    def _is_natural(self, node: Node) -> bool:
        value = self._value(node)
        return value is None or (value.denominator == 1 and value >= 0)

    def _small_integer(self, node: Node) -> int | None:
        value = self._value(node)
        if value is None or value.denominator != 1:
            return None
        return int(value) if value.numerator.bit_length() <= _EXPONENT_BITS else None

    def _value(self, node: Node) -> Fraction | None:
        """The exact value, each worked out once."""
        if id(node) not in self._exact:
            values = [self._value(arg) for arg in node.args]
            try:
                self._exact[id(node)] = combined(node, values)
            except (TooLarge, ZeroDivisionError):
                self._exact[id(node)] = None
        return self._exact[id(node)]


def _power(base: int, exponent: int) -> int:
    if base == 0:
        raise NotRational("power of 0")
    return pow(base, exponent, _prime())


def _inverse(number: int) -> int:
    if number % _prime() == 0:
        raise NotRational("pole")
    return pow(number, -1, _prime())
