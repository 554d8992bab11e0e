"""Equality of rational functions by their residues at random points (Schwartz 1980, Zippel 1979).

Costs a multiplication of small integers for each operation, whatever the numbers and exponents.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import cache

from rlvr_platform.verifiers.math_expression import Node

_POINTS = 2
_BITS = 127


class NotRational(ArithmeticError):
    """The tree is no quotient of polynomials, or has a pole at this point."""


def same_rational_function(a: Node, b: Node, names: frozenset[str]) -> bool:
    """Whether two quotients of polynomials with rational coefficients are the same.

    Wrong with a probability of at most degree / 2**126 a point. Raises NotRational.
    """
    for trial in range(_POINTS):
        point = {name: _residue_of_symbol(name, trial) for name in names}
        if _residue(a, point) != _residue(b, point):
            return False
    return True


@cache
def _prime() -> int:
    """Chosen in each process anew: nobody can write an expression that is 0 modulo it."""
    from sympy import nextprime

    return int(nextprime(secrets.randbits(_BITS) | 1 << (_BITS - 1)))


@cache
def _residue_of_symbol(name: str, trial: int) -> int:
    return secrets.randbelow(_prime() - 2) + 2


def _residue(node: Node, point: Mapping[str, int]) -> int:
    prime = _prime()
    if node.op == "num":
        return node.value.numerator * _inverse(node.value.denominator) % prime
    if node.op == "sym":
        return point[node.name]
    if node.op == "^":
        return _power(_residue(node.args[0], point), node.args[1])
    if node.op == "neg":
        return -_residue(node.args[0], point) % prime
    if node.op not in ("+", "*", "/"):
        raise NotRational(node.op)
    left, right = (_residue(arg, point) for arg in node.args)
    if node.op == "+":
        return (left + right) % prime
    return left * (right if node.op == "*" else _inverse(right)) % prime


def _power(base: int, exponent: Node) -> int:
    number = exponent.args[0] if exponent.op == "neg" else exponent
    if number.op != "num" or number.value.denominator != 1 or base == 0:
        raise NotRational("power")
    power = pow(base, abs(number.value.numerator), _prime())
    return _inverse(power) if (number.value < 0) != (exponent.op == "neg") else power


def _inverse(number: int) -> int:
    if number % _prime() == 0:
        raise NotRational("pole")
    return pow(number, -1, _prime())
