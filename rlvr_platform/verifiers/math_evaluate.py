"""Equality of two expression trees by value: exactly where both are rational, else to many digits
at sample points of their symbols. No step grows with the size of the numbers involved."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath

from rlvr_platform.verifiers.math_exact import TooLarge, exact
from rlvr_platform.verifiers.math_expression import Node, symbols
from rlvr_platform.verifiers.math_modular import NotRational, same_formally, same_rational_function

_MAX_EXPONENT = 1e12
"""Natural logarithm of the largest number that is evaluated in floating point."""
_DIGITS = 50
_MAX_DIGITS = 6000
_ROUNDS = 3
_INTEGERS = frozenset("nkmN")
"""Symbols that stand for integers by convention, e.g. in (-1)^n."""
_RANGES = ((0.05, 0.95), (1.1, 3.0), (-0.95, -0.05), (0.1, 0.9), (-3.0, -1.1), (4.0, 9.0))
"""Where the sample points lie, one interval each: small, large, negative."""
_ARC = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot"}
_ARC |= {"arcsec": "asec", "arccsc": "acsc"}


class Undefined(ArithmeticError):
    """The expression has no finite value at this point."""


def same_value(a: Node, b: Node) -> bool:
    """Whether the trees are equal wherever `a` has a real value; of complex value if nowhere."""
    if a == b:
        return True
    names = symbols(a) | symbols(b)
    if not names:
        return _same_constant(a, b)
    try:
        return same_rational_function(a, b, names)
    except NotRational:
        return _same_function(a, b, names)


def value_at(node: Node, point: Mapping[str, Any]) -> Any:
    """The mpmath value where the symbols have these values. Raises TooLarge or Undefined."""
    return _at(node, point, _DIGITS)


def constant(node: Node, digits: int = _DIGITS) -> Any:
    """The mpmath value of a tree without symbols. Raises TooLarge or Undefined."""
    return _at(node, {}, digits)


def _same_constant(a: Node, b: Node) -> bool:
    left, right = exact(a), exact(b)
    if left is not None and right is not None:
        return left == right
    try:
        x, y = constant(a), constant(b)
        return _near(x, y) and (_confirmed(a, b, {}, x, y) or same_formally(a, b))
    except TooLarge:
        return same_formally(a, b)
    except Undefined:
        return False


def _near(x: Any, y: Any) -> bool:
    """Equal as far as working precision tells, relative to the numbers or to one."""
    return bool(abs(x - y) <= max(abs(x), abs(y), 1) * mpmath.mpf(10) ** (10 - _DIGITS))


def _confirmed(a: Node, b: Node, point: Mapping[str, Any], x: Any, y: Any) -> bool:
    """Whether `x` and `y` stay equal, or become so, at precisions that resolve a unit.

    A difference that is an error of rounding changes with the precision, a true one does not.
    """
    digits = _DIGITS
    for _ in range(_ROUNDS):
        digits = int(max(3 * digits, 3 * _DIGITS + 1.1 * max(_log10(x), _log10(y))))
        if digits > _MAX_DIGITS:
            return False
        with mpmath.workdps(digits):
            before = abs(x - y) or mpmath.mpf(10) ** -_DIGITS
            x, y = _at(a, point, digits), _at(b, point, digits)
            distance = abs(x - y)
            if distance <= max(abs(x), abs(y)) * mpmath.mpf(10) ** (20 - digits):
                return True
            if distance < before * mpmath.mpf(10) ** -_DIGITS:
                return True
            if abs(distance - before) <= before * mpmath.mpf(10) ** -10:
                return False
    return False


def _log10(x: Any) -> float:
    return abs(float(mpmath.log10(abs(x)))) if x else 0.0


def _same_function(a: Node, b: Node, names: frozenset[str]) -> bool:
    agreed = {True: 0, False: 0}
    for trial in range(len(_RANGES)):
        point = sample_point(names, trial)
        try:
            x = _at(a, point, _DIGITS)
            real = abs(mpmath.im(x)) <= abs(x) * mpmath.mpf(10) ** -30
            if not real and agreed[True]:
                continue
            y = _at(b, point, _DIGITS)
        except Undefined:
            continue
        except TooLarge:
            return False
        try:
            plain = _near(x, y) and max(abs(x), abs(y)) > mpmath.mpf(10) ** -20
            same = plain or _confirmed(a, b, point, x, y)
        except (Undefined, TooLarge):
            return False
        if real and not same:
            return False
        agreed[real] += 1 if same else -100
    return agreed[True] > 0 or agreed[False] > 0


def sample_point(names: frozenset[str], trial: int) -> dict[str, Any]:
    """Values for symbols: a pure function of their names and of `trial`, 0 to 5."""
    return {name: _sample(name, trial) for name in names}


def _sample(name: str, trial: int) -> Any:
    digest = hashlib.blake2b(f"{name}:{trial}".encode(), digest_size=6).digest()
    share = Fraction(int.from_bytes(digest), 2**48)
    if name in _INTEGERS:
        return mpmath.mpf(2 + int(share * 20))
    low, high = _RANGES[trial]
    return mpmath.mpf(low) + mpmath.mpf(high - low) * share.numerator / share.denominator


def _at(node: Node, point: Mapping[str, Any], digits: int) -> Any:
    with mpmath.workdps(digits):
        try:
            return _finite(_value(node, point))
        except (ValueError, ZeroDivisionError, TypeError, mpmath.libmp.ComplexResult) as problem:
            raise Undefined(str(problem)) from problem
        except (OverflowError, MemoryError, mpmath.libmp.NoConvergence) as problem:
            raise TooLarge(str(problem)) from problem


def _finite(x: Any) -> Any:
    if not mpmath.isfinite(x):
        raise Undefined("infinite")
    return x


def _value(node: Node, point: Mapping[str, Any]) -> Any:
    op = node.op
    if op == "num":
        return mpmath.mpf(node.value.numerator) / node.value.denominator
    if op == "sym":
        return point[node.name]
    if op == "const":
        return _constant(node.name)
    values = [_value(arg, point) for arg in node.args]
    if op == "^":
        return _power(values[0], values[1], exact(node.args[1]))
    if op == "root":
        return _root(values[0], exact(node.args[1]), values[1])
    if op == "apply":
        return _opaque(node.name, values[0])
    return _finite(_OPERATIONS[op](*values))


def _constant(name: str) -> Any:
    if name == "infty":
        raise Undefined("infinity")
    return {"pi": +mpmath.pi, "e": +mpmath.e, "i": mpmath.mpc(0, 1)}[name]


def _power(base: Any, exponent: Any, rational: Fraction | None) -> Any:
    if base == 0:
        if mpmath.re(exponent) <= 0:
            raise Undefined("zero to a power that is not positive")
        return mpmath.mpf(0)
    _bounded(mpmath.re(exponent * mpmath.log(base)))
    if rational is not None and rational.denominator > 1:
        return _root(base, Fraction(rational.denominator), rational.denominator, rational.numerator)
    return mpmath.power(base, exponent)


def _root(base: Any, degree: Fraction | None, value: Any, power: int = 1) -> Any:
    """The real root of odd degree of a negative number, else the principal one."""
    odd = degree is not None and degree.denominator == 1 and degree.numerator % 2 == 1
    if odd and mpmath.im(base) == 0 and base < 0:
        return (-mpmath.power(-base, 1 / mpmath.mpf(value))) ** power
    if base == 0:
        return mpmath.mpf(0)
    return mpmath.power(base, power / mpmath.mpmathify(value))


def _opaque(name: str, argument: Any) -> Any:
    """A value for f(x) of which nothing is known: one for each name and argument."""
    digest = hashlib.blake2b(f"{name}:{mpmath.nstr(argument, 20)}".encode(), digest_size=6)
    return 1 + mpmath.mpf(int.from_bytes(digest.digest())) / 2**48


def _bounded(logarithm: Any) -> None:
    if abs(logarithm) > _MAX_EXPONENT:
        raise TooLarge("power")


def _exp(x: Any) -> Any:
    _bounded(mpmath.re(x))
    return mpmath.exp(x)


def _trigonometric(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of an argument so large that nothing of its phase is known, there is no value."""

    def bounded(x: Any) -> Any:
        if abs(x) > mpmath.mpf(10) ** (mpmath.mp.dps // 2) or abs(mpmath.im(x)) > _MAX_EXPONENT:
            raise TooLarge("argument of a periodic function")
        return function(x)

    return bounded


def _hyperbolic(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def bounded(x: Any) -> Any:
        _bounded(mpmath.re(x))
        return function(x)

    return bounded


def _log(x: Any, base: Any = None) -> Any:
    if x == 0:
        raise Undefined("logarithm of zero")
    return mpmath.log(x) if base is None else mpmath.log(x) / mpmath.log(base)


def _factorial(x: Any) -> Any:
    if abs(x) > 1e10:
        raise TooLarge("factorial")
    return mpmath.gamma(x + 1)


def _binomial(n: Any, k: Any) -> Any:
    if max(abs(n), abs(k)) > 1e10:
        raise TooLarge("binomial")
    return mpmath.binomial(n, k)


def _modulo(a: Any, b: Any) -> Any:
    if abs(a) > mpmath.mpf(10) ** (mpmath.mp.dps - 10):
        raise TooLarge("remainder of a number whose last digits are not known")
    return a - b * mpmath.floor(a / b)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "mod": _modulo,
    "neg": lambda a: -a,
    "!": _factorial,
    "abs": abs,
    "binom": _binomial,
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "exp": _exp,
    "ln": _log,
    "log": lambda x, base=10: _log(x, base),
    "lg": lambda x: _log(x, 10),
    "cis": _trigonometric(mpmath.expj),
    **{f: _trigonometric(getattr(mpmath, f)) for f in ("sin", "cos", "tan", "cot", "sec", "csc")},
    **{f: _hyperbolic(getattr(mpmath, f)) for f in ("sinh", "cosh", "tanh", "coth")},
    **{name: getattr(mpmath, function) for name, function in _ARC.items()},
}
