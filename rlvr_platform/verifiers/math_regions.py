"""Sets of real numbers, compared by membership: intervals, unions, complements, inequalities.

Two regions are equal when they agree at every endpoint of either, between neighbouring endpoints,
beyond the outermost ones, and on a fixed grid that catches what has no written endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import mpmath

from rlvr_platform.verifiers.math_evaluate import Undefined, value_at
from rlvr_platform.verifiers.math_exact import TooLarge
from rlvr_platform.verifiers.math_expression import Node, NotReadable, read_expression, symbols
from rlvr_platform.verifiers.math_structure import (
    Builder,
    Relation,
    Scalar,
    Sequence,
    SetExpression,
    Shape,
    Words,
)

_ORDER = ("<", ">", "\\le", "\\ge", "\\ne")
_INTERVALS = ("()", "(]", "[)", "[]")
_MAX_ENDPOINTS = 200
_GRID = tuple(mpmath.mpf(k) * mpmath.sqrt(2) / 3 for k in range(-30, 31))
_EVERYTHING = frozenset({"all real numbers", "all reals", "real numbers", "all real numbers x"})


@dataclass(frozen=True, slots=True)
class Region:
    endpoints: tuple[Any, ...]
    contains: Callable[[Any], bool]


def is_region(shape: Shape) -> bool:
    """Whether `shape` can only be read as a set of numbers, not as a tuple or a value."""
    if isinstance(shape, (SetExpression, Builder)):
        return True
    if isinstance(shape, Scalar):
        return shape.text.replace(" ", "") in ("\\mathbb{R}", "\\emptyset")
    if isinstance(shape, Words):
        return shape.text in _EVERYTHING
    if isinstance(shape, Sequence):
        half_open = shape.kind in ("(]", "[)")
        endless = any(isinstance(i, Scalar) and "\\infty" in i.text for i in shape.items)
        return half_open or endless or (shape.kind == "list" and all(map(is_region, shape.items)))
    if isinstance(shape, Relation):
        if shape.operators == ("\\in",) or shape.operators == ("=",):
            return is_region(shape.sides[1])
        return all(operator in _ORDER for operator in shape.operators)
    return False


def same_region(gold: Shape, answer: Shape) -> bool | None:
    """None when one of them is no set of real numbers, or has more than one variable."""
    if _same_pieces(gold, answer):
        return True
    names: set[str] = set()
    try:
        g, a = _region(gold, names), _region(answer, names)
        if g is None or a is None:
            return None
        return _agree(g, a)
    except (NotReadable, TooLarge, Undefined):
        return None


def _same_pieces(gold: Shape, answer: Shape) -> bool:
    """Unions of the same sets, however many."""
    if not isinstance(gold, SetExpression) or not isinstance(answer, SetExpression):
        return False
    unions = {*gold.operators, *answer.operators} == {"\\cup"}
    return unions and frozenset(gold.operands) == frozenset(answer.operands)


def _agree(gold: Region, answer: Region) -> bool:
    ends = sorted({*gold.endpoints, *answer.endpoints})
    if len(ends) > _MAX_ENDPOINTS:
        return False
    ends = [x for i, x in enumerate(ends) if i == 0 or not _near(x, ends[i - 1])]
    between = [(x + y) / 2 for x, y in pairwise(ends)]
    outside = [ends[0] - 1, ends[-1] + 1] if ends else []
    points = [*ends, *between, *outside, *_GRID]
    return all(gold.contains(x) == answer.contains(x) for x in points)


def _near(x: Any, y: Any) -> bool:
    if not (mpmath.isfinite(x) and mpmath.isfinite(y)):
        return bool(x == y)
    return bool(abs(x - y) <= max(abs(x), abs(y), mpmath.mpf(10) ** -20) * mpmath.mpf(10) ** -12)


def _region(shape: Shape, names: set[str]) -> Region | None:
    if isinstance(shape, SetExpression):
        return _combined(shape, names)
    if isinstance(shape, Builder):
        return _region(shape.condition, names)
    if isinstance(shape, Relation):
        return _relation(shape, names)
    if isinstance(shape, Sequence):
        return _sequence(shape, names)
    if isinstance(shape, Words):
        return Region((), lambda x: True) if shape.text in _EVERYTHING else None
    if not isinstance(shape, Scalar):
        return None
    constants: dict[str, Region] = {
        "\\mathbb{R}": Region((), lambda x: True),
        "\\emptyset": Region((), lambda x: False),
    }
    return constants.get(re.sub(r"[\s]", "", shape.text))


def _combined(shape: SetExpression, names: set[str]) -> Region | None:
    region = _region(shape.operands[0], names)
    for operator, operand in zip(shape.operators, shape.operands[1:], strict=True):
        other = _region(operand, names)
        if region is None or other is None:
            return None
        region = _joined(operator, region, other)
    return region


def _joined(operator: str, a: Region, b: Region) -> Region:
    contains = {
        "\\cup": lambda x: a.contains(x) or b.contains(x),
        "\\cap": lambda x: a.contains(x) and b.contains(x),
        "\\setminus": lambda x: a.contains(x) and not b.contains(x),
    }[operator]
    return Region((*a.endpoints, *b.endpoints), contains)


def _sequence(shape: Sequence, names: set[str]) -> Region | None:
    if shape.kind in _INTERVALS and len(shape.items) == 2:
        return _interval(shape)
    if shape.kind == "set":
        return _points(shape)
    if shape.kind != "list":
        return None
    operator = "\\cup" if shape.joint == "\\or" or not _inequalities(shape) else "\\cap"
    parts = tuple(_unlisted(item) for item in shape.items)
    region = _combined(SetExpression((operator,) * (len(parts) - 1), parts), names)
    if operator == "\\cap" and region and not any(map(region.contains, _probes(region))):
        return _combined(SetExpression(("\\cup",) * (len(parts) - 1), parts), names)
    return region


def _inequalities(shape: Sequence) -> bool:
    return all(isinstance(item, Relation) and item.operators[0] in _ORDER for item in shape.items)


def _unlisted(item: Shape) -> Shape:
    return Sequence("set", (item,)) if isinstance(item, Scalar) and "\\" not in item.text else item


def _probes(region: Region) -> list[Any]:
    ends = sorted(region.endpoints)
    return [*ends, *((x + y) / 2 for x, y in pairwise(ends)), *_GRID]


def _interval(shape: Sequence) -> Region | None:
    ends = [_end(item) for item in shape.items]
    low, high = ends
    if low is None or high is None or low > high:
        return None
    left_closed, right_closed = shape.kind[0] == "[", shape.kind[1] == "]"

    def contains(x: Any) -> bool:
        if _near(x, low):
            return left_closed and (right_closed or not _near(x, high))
        if _near(x, high):
            return right_closed
        return bool(low < x < high)

    return Region(tuple(x for x in (low, high) if mpmath.isfinite(x)), contains)


def _points(shape: Sequence) -> Region | None:
    values = [_end(item) for item in shape.items]
    if any(value is None or not mpmath.isfinite(value) for value in values):
        return None
    return Region(tuple(values), lambda x: any(_near(x, value) for value in values))


def _end(item: Shape) -> Any:
    """A real number or an infinity; None when it is neither."""
    if not isinstance(item, Scalar):
        return None
    text = re.sub(r"[\s{}+]", "", item.text)
    if text in ("\\infty", "-\\infty"):
        return mpmath.inf if text[0] == "\\" else -mpmath.inf
    node = read_expression(item.text)
    value = None if symbols(node) else value_at(node, {})
    return value if value is not None and mpmath.im(value) == 0 else None


def _relation(shape: Relation, names: set[str]) -> Region | None:
    if shape.operators == ("\\in",) or shape.operators == ("=",):
        value = shape.sides[1]
        return _region(_unlisted(value), names)
    if not all(operator in _ORDER for operator in shape.operators):
        return None
    sides = [_side(side) for side in shape.sides]
    own = frozenset[str]().union(*(symbols(node) for node in sides if isinstance(node, Node)))
    names |= own
    if len(own) != 1 or len(names) != 1:
        return None
    name = next(iter(own))
    ends = [e for e in map(_constant_side, sides) if e is not None]
    return Region(tuple(ends), _holds(shape.operators, sides, name))


def _side(side: Shape) -> Node | Any:
    if not isinstance(side, Scalar):
        raise NotReadable("a side of a relation that is no number")
    if "\\infty" in side.text:
        return _end(side)
    return read_expression(side.text)


def _constant_side(side: Node | Any) -> Any:
    if not isinstance(side, Node) or symbols(side):
        return None
    return value_at(side, {})


def _holds(operators: tuple[str, ...], sides: list[Node | Any], name: str) -> Callable[[Any], bool]:
    def contains(x: Any) -> bool:
        try:
            values = [_side_at(side, {name: x}) for side in sides]
        except Undefined:
            return False
        return all(
            _ordered(operator, a, b)
            for operator, a, b in zip(operators, values, values[1:], strict=False)
        )

    return contains


def _side_at(side: Node | Any, point: Mapping[str, Any]) -> Any:
    value = value_at(side, point) if isinstance(side, Node) else side
    if mpmath.im(value) != 0:
        raise Undefined("not real")
    return value


def _ordered(operator: str, a: Any, b: Any) -> bool:
    if mpmath.isfinite(a) and mpmath.isfinite(b) and _near(a, b):
        return operator in ("\\le", "\\ge")
    if operator == "\\ne":
        return True
    return bool(a < b) if operator in ("<", "\\le") else bool(a > b)
