"""Whether two scalars are the same quantity: marks by policy, then value, then rounding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations

import mpmath

from rlvr_platform.config.verifiers_math import MathVerifier
from rlvr_platform.verifiers.math_evaluate import Undefined, constant, same_value
from rlvr_platform.verifiers.math_exact import TooLarge, exact
from rlvr_platform.verifiers.math_expression import Node, number, read_expression, symbols
from rlvr_platform.verifiers.math_quantity import Quantity, opposed, read_quantity

_INTEGER = re.compile(r"[-+]?\d{1,40}")
_DECIMAL = re.compile(
    r"[-+]?\s*\d*\.(\d+)(?:\s*(?:\\cdot|\\times|\*)\s*10\s*\^\s*\{?\s*(-?\d+)\s*\}?)?"
)
_POWER_OF_TEN = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d+)(?!\w)")
_REPEATING = re.compile(
    r"(?<!\d)(\d{0,40})\.(\d{0,40})(?:\\dot\s*\{?(\d)\}?(\d{0,100})\\dot\s*\{?(\d)\}?"
    r"|\\(?:overline|bar|dot)\s*\{(\d{1,100})\}|\((\d{1,100})\)|\\dot\s*(\d))"
)
_CONTINUED = re.compile(r"(?<!\d)(\d{0,40})\.(\d{1,60}?)(?:\\ldots|\.\.\.)\s*$")
_IN_BASE = re.compile(r"\(?([0-9A-Fa-f]+)\)?_\s*\{?\s*(?:\\text\{\s*)?(\d+|[a-z]{3,7})\s*\}*")
_BASES = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
)
_BASE = {word: str(base) for base, word in enumerate(_BASES.split(), start=2)}
_CONSTANT = re.compile(r"C|[Cc]_\d")
_ARBITRARY = re.compile(r"[A-DKck](?:_\d)?")
_MAX_CONSTANTS = 3
_PERIODS = frozenset("kmn")
_APPROXIMATE_DECIMALS = 6
"""Decimals from which a decimal answer stands for an exact gold number."""
_HALF_A_PLACE = Fraction(501, 1000)
"""And a little, since a half may have been rounded either way."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One way to take a quantity."""

    node: Node
    decimals: int | None
    """Decimal places when it is a decimal literal."""


def same_scalar(gold: str, answer: str, policy: MathVerifier) -> bool:
    """Raises NotReadable when one of them is not an expression and they differ as text."""
    if _squeezed(gold) == _squeezed(answer):
        return True
    if _INTEGER.fullmatch(gold) and _INTEGER.fullmatch(answer):
        return int(gold) == int(answer)
    g, a = read_quantity(gold), read_quantity(answer)
    if not (_says_no_more(g, a) and _units_agree(g, a, policy)):
        return False
    if _IN_BASE.fullmatch(g.core) or _IN_BASE.fullmatch(a.core):
        return _same_in_base(g.core, a.core)
    return any(_equal(x, y, policy) for x, y in _readings(g, a, policy))


def _says_no_more(gold: Quantity, answer: Quantity) -> bool:
    """Whether the answer has no words that change its meaning, other than the gold answer's."""
    if answer.hedged and not gold.hedged:
        return False
    if opposed(f"{gold.head} {gold.unit}", f"{answer.head} {answer.unit}"):
        return False
    if not gold.head and answer.head.endswith((" is", " are", " equals")):
        return True
    return set(answer.head.split()) <= set(gold.head.split())


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _units_agree(gold: Quantity, answer: Quantity, policy: MathVerifier) -> bool:
    if policy.units == "ignore":
        return True
    if policy.units == "require" and gold.unit and not answer.unit:
        return False
    return not (gold.known_unit and answer.known_unit) or gold.unit == answer.unit


def _same_in_base(gold: str, answer: str) -> bool:
    """Digits in a named base; a base may be left out on one side."""
    g, a = _IN_BASE.fullmatch(gold), _IN_BASE.fullmatch(answer)
    if g and a:
        bases = [_BASE.get(match[2], match[2]) for match in (g, a)]
        return g[1].lower() == a[1].lower() and bases[0] == bases[1]
    named, bare = (g, answer) if g else (a, gold)
    return named is not None and named[1].lower() == bare.strip().lower()


def _readings(
    gold: Quantity, answer: Quantity, policy: MathVerifier
) -> Iterator[tuple[_Reading, _Reading]]:
    """The pairs of values of which one has to agree."""
    g, a = _reading(gold), _reading(answer)
    if gold.percent == answer.percent:
        yield g, a
    else:
        yield (_percent(g), a) if gold.percent else (g, _percent(a))
        if policy.percent == "lenient":
            yield g, a
    if gold.degrees != answer.degrees:
        if gold.degrees and "\\pi" in answer.core:
            yield _in_radians(g), a
        elif answer.degrees and "\\pi" in gold.core:
            yield g, _in_radians(a)


def _reading(quantity: Quantity) -> _Reading:
    text = _rational_decimals(quantity.core)
    text = _POWER_OF_TEN.sub(r"(\1\\cdot 10^{\2})", text)
    node = read_expression(text)
    if quantity.scale != 1:
        node = Node("*", (node, number(quantity.scale)))
    match = _DECIMAL.fullmatch(text.strip("() ")) or _DECIMAL.fullmatch(quantity.core)
    decimals = len(match[1]) - int(match[2] or 0) if match else None
    return _Reading(node, decimals)


def _percent(reading: _Reading) -> _Reading:
    decimals = None if reading.decimals is None else reading.decimals + 2
    return _Reading(Node("/", (reading.node, number(100))), decimals)


def _in_radians(reading: _Reading) -> _Reading:
    half_turn = Node("/", (Node("const", name="pi"), number(180)))
    return _Reading(Node("*", (reading.node, half_turn)), None)


def _rational_decimals(text: str) -> str:
    """0.\\overline{3}, 0.(3), 0.\\dot3 and 0.333... as fractions."""
    if "." not in text:
        return text
    text = _REPEATING.sub(_repeating, text)
    return _CONTINUED.sub(_continued, text)


def _repeating(match: re.Match[str]) -> str:
    period = "".join(part or "" for part in match.groups()[2:])
    return _fraction(match[1], match[2], period)


def _continued(match: re.Match[str]) -> str:
    digits = match[2]
    for start in range(min(4, len(digits))):
        for length in range(1, 7):
            tail = digits[start:]
            if len(tail) >= max(2 * length, 3) and tail == (tail[:length] * len(tail))[: len(tail)]:
                return _fraction(match[1], digits[:start], tail[:length])
    return f"{match[1] or 0}.{digits}"


def _fraction(whole: str, prefix: str, period: str) -> str:
    nines = 10 ** len(period) - 1
    value = Fraction(int(whole or 0)) + Fraction(int(prefix or 0), 10 ** len(prefix))
    value += Fraction(int(period), nines * 10 ** len(prefix))
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _equal(gold: _Reading, answer: _Reading, policy: MathVerifier) -> bool:
    if same_value(gold.node, answer.node):
        return True
    if symbols(gold.node) or symbols(answer.node):
        return _same_up_to_constant(gold.node, answer.node)
    return _rounded_gold(gold, answer, policy) or _close_answer(gold, answer)


def _same_up_to_constant(gold: Node, answer: Node) -> bool:
    """Constants of integration and the integer of a period may have other names."""
    if any(same_value(g, a) for g, a in _renamings(gold, answer)):
        return True
    for node in (gold, answer):
        if not any(name[0] in "CcKk" for name in symbols(node)):
            return False
    return same_value(_renamed(gold), _renamed(answer))


def _renamings(gold: Node, answer: Node) -> Iterator[tuple[Node, Node]]:
    """Both with the same names: C_1 e^x + C_2 beside A + B e^x, k\\pi beside n\\pi."""
    for names in _constants(symbols(gold), symbols(answer)):
        yield gold, _with_names(answer, names)
    for names in _constants(symbols(answer), symbols(gold)):
        yield _with_names(gold, names), answer
    mine, theirs = symbols(gold) - symbols(answer), symbols(answer) - symbols(gold)
    if len(mine) == len(theirs) == 1 and mine | theirs <= _PERIODS and _has_pi(gold):
        yield gold, _with_names(answer, {min(theirs): min(mine)})


def _constants(wanted: frozenset[str], given: frozenset[str]) -> Iterator[dict[str, str]]:
    """Ways to give the arbitrary constants among `given` the names of those among `wanted`."""
    constants = {name for name in wanted if _CONSTANT.fullmatch(name)}
    free = sorted(given - (wanted - constants))
    arbitrary = all(map(_ARBITRARY.fullmatch, free)) and all(map(str.islower, wanted - constants))
    if arbitrary and wanted > constants and 0 < len(constants) == len(free) <= _MAX_CONSTANTS:
        for order in permutations(sorted(constants)):
            yield dict(zip(free, order, strict=True))


def _with_names(node: Node, names: dict[str, str]) -> Node:
    args = tuple(_with_names(arg, names) for arg in node.args)
    return replace(node, args=args, name=names.get(node.name, node.name))


def _has_pi(node: Node) -> bool:
    return node.name == "pi" or any(map(_has_pi, node.args))


def _renamed(node: Node) -> Node:
    if node.op != "+":
        return node
    left, right = node.args
    if right.op == "sym" and right.name[0] in "CcKk":
        return Node("+", (left, Node("sym", name="C")))
    return Node("+", (_renamed(left), right))


def _rounded_gold(gold: _Reading, answer: _Reading, policy: MathVerifier) -> bool:
    """The gold answer is the answer rounded to the gold answer's last place."""
    if gold.decimals is None or gold.decimals < policy.rounding_decimals:
        return False
    if answer.decimals is not None and answer.decimals < gold.decimals:
        return False
    return _within(gold.node, answer.node, _HALF_A_PLACE / _ten_to(gold.decimals))


def _close_answer(gold: _Reading, answer: _Reading) -> bool:
    """A decimal of many places for a number that is no shorter decimal."""
    if answer.decimals is None or answer.decimals < _APPROXIMATE_DECIMALS:
        return False
    value = exact(gold.node)
    ends = value is not None and (value * _ten_to(answer.decimals)).denominator == 1
    if ends and answer.decimals < 2 * _APPROXIMATE_DECIMALS:
        return False
    place = 1 / _ten_to(answer.decimals)
    rounded = _within(gold.node, answer.node, _HALF_A_PLACE * place, relative=1e-5)
    return rounded or _cut_off(gold.node, answer.node, place)


def _ten_to(exponent: int) -> Fraction:
    return Fraction(10) ** max(-400, min(exponent, 400))


def _cut_off(gold: Node, answer: Node, place: Fraction) -> bool:
    """Whether the answer is the gold answer without its further decimals."""
    shorter = Node("+", (Node("abs", (gold,)), Node("neg", (Node("abs", (answer,)),))))
    try:
        return bool(constant(shorter) >= 0) and _within(gold, answer, place, relative=1e-5)
    except (TooLarge, Undefined):
        return False


def _within(gold: Node, answer: Node, distance: Fraction, relative: float = 1.0) -> bool:
    try:
        x, y = constant(gold), constant(answer)
    except (TooLarge, Undefined):
        return False
    gap = abs(x - y)
    limit = mpmath.mpf(distance.numerator) / distance.denominator
    return bool(gap <= limit) and bool(gap <= relative * abs(x))
