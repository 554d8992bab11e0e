"""Equations and inequalities: what their sides name, and whether two describe the same points."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import mpmath

from rlvr_platform.verifiers.math_evaluate import Undefined, sample_point, value_at
from rlvr_platform.verifiers.math_exact import TooLarge
from rlvr_platform.verifiers.math_expression import Node, read_expression, symbols
from rlvr_platform.verifiers.math_structure import Relation, Scalar, Sequence, Shape, Words

EQUALITIES = frozenset({"=", "\\approx", "\\equiv", "\\in"})
_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
_DECORATION = re.compile(
    r"\\(?:angle|triangle|overline|vec|overrightarrow|widehat|hat|bar|tilde|measuredangle|mathcal"
    r"|operatorname|text|mathbb|odot|Delta|area|arc|sphericalangle)(?![a-zA-Z])"
)
_ATOM = r"(?:\\(?!frac|sqrt|cdot|times|pi\b)[a-zA-Z]+|[a-zA-Z])(?:_(?:\{[^{}]*\}|\w|\\\w+))?'*"
_NAME = re.compile(
    rf"(?:{_ATOM}|[A-Z](?:_?\d|'|[A-Z]){{0,5}}|[a-zA-Z]{{3,}}"
    rf"|{_ATOM}(?:\^\{{?(?:-1|\\prime)\}}?)?\s*\(.*\)"
    rf"|\\(?:sin|cos|tan|cot|log|ln)\s*(?:{_ATOM}|[A-Z]+|\(.*\))"
    rf"|\|[A-Z]+\||\|{_ATOM}\||\[[A-Z]+\]|\\frac\{{d[a-z]\}}\{{d[a-z]\}})"
)
_SYMBOL = re.compile(r"(?<![\\a-zA-Z])[a-df-zA-Z](?![a-zA-Z])")
_SAMPLES = 4


def is_name(side: Shape) -> bool:
    """Whether a side only names a quantity: x, a_1, f(x), AB, |AB|, \\angle A, (x, y), words."""
    if isinstance(side, Words):
        return True
    if isinstance(side, Sequence):
        return bool(side.items) and all(map(is_name, side.items))
    if not isinstance(side, Scalar):
        return False
    if ":" in side.text:
        return all(is_name(Scalar(part)) for part in side.text.split(":"))
    text = re.sub(r"[\s{}]", "", _DECORATION.sub("", side.text))
    spaced = _DECORATION.sub("", side.text).strip()
    return bool(_NAME.fullmatch(text) or _NAME.fullmatch(spaced)) or "\\text" in side.text


def is_number(side: Shape) -> bool:
    """Whether a side has no symbols."""
    return isinstance(side, Scalar) and not _SYMBOL.search(re.sub(r"\\[a-zA-Z]+", " ", side.text))


def is_equation(shape: Shape) -> bool:
    return isinstance(shape, Relation) and EQUALITIES.issuperset(shape.operators)


def named(equation: Relation) -> tuple[Shape, tuple[Shape, ...]] | None:
    """The name, at the left or else at the right, and the sides that are given for its value.

    None without a name.
    """
    first, last = equation.sides[0], equation.sides[-1]
    if is_name(first):
        return first, equation.sides[1:]
    if is_name(last) and equation.operators[-1] == "=":
        return last, equation.sides[:-1]
    if len(equation.sides) > 2 and all(map(is_number, equation.sides[1:])):
        return first, equation.sides[1:]  # m + n = 7 + 18 = 25
    return None


def exact_sides(equation: Relation, values: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The values without those that stand behind an approximate equality, unless all do."""
    skipped = 0 if values[0] is equation.sides[0] else 1
    operators = ("=", *equation.operators)[skipped:]
    exact = tuple(
        value for value, operator in zip(values, operators, strict=False) if operator != "\\approx"
    )
    return exact or values


def flipped(relation: Relation) -> Relation:
    """The same relation read from right to left."""
    operators = tuple(_FLIPPED.get(operator, operator) for operator in relation.operators)
    return replace(relation, operators=operators[::-1], sides=relation.sides[::-1])


def same_points(gold: Relation, answer: Relation) -> bool:
    """Whether two two-sided relations in the same symbols hold at the same points.

    Their differences of sides are in a constant ratio, positive for inequalities; equations also
    match when each vanishes where the other does.
    """
    g, a = _difference(gold), _difference(answer)
    names = symbols(g)
    if names != symbols(a) or not names:
        return False
    ratio = _constant_ratio(g, a, names)
    if ratio is not None:
        return ratio > 0 if gold.operators[0] in _FLIPPED else True
    if gold.operators[0] != "=" or len(names) > 3:
        return False
    return _vanishes_with(g, a, names) and _vanishes_with(a, g, names)


def _difference(relation: Relation) -> Node:
    left, right = (
        read_expression(side.text) if isinstance(side, Scalar) else read_expression("")
        for side in relation.sides
    )
    return Node("+", (left, Node("neg", (right,))))


def _constant_ratio(g: Node, a: Node, names: frozenset[str]) -> Any:
    ratios = []
    for trial in range(_SAMPLES):
        try:
            point = sample_point(names, trial)
            ratios.append(value_at(g, point) / value_at(a, point))
        except (Undefined, TooLarge, ZeroDivisionError):
            continue
    if len(ratios) < 2 or any(mpmath.im(ratio) != 0 for ratio in ratios):
        return None
    spread = max(abs(ratio - ratios[0]) for ratio in ratios)
    return ratios[0] if spread <= abs(ratios[0]) * mpmath.mpf(10) ** -25 else None


def _vanishes_with(g: Node, a: Node, names: frozenset[str]) -> bool:
    """Whether `g` is zero at a few zeros of `a`, found in each symbol from complex starts."""
    found = 0
    for trial in range(_SAMPLES):
        name = sorted(names)[trial % len(names)]
        point = sample_point(names, trial)
        try:
            point[name] = _zero_of(a, name, point, trial)
            scale = abs(value_at(g, point | {name: point[name] + 1})) + 1
            if abs(value_at(g, point)) > scale * mpmath.mpf(10) ** -12:
                return False
            found += 1
        except (Undefined, TooLarge, ValueError, ZeroDivisionError):
            continue
    return found >= 2


def _zero_of(node: Node, name: str, point: dict[str, Any], trial: int) -> Any:
    start = mpmath.mpc(1.3 + trial, 0.7 - trial)
    return mpmath.findroot(
        lambda x: value_at(node, {**point, name: x}), start, solver="secant", tol=1e-30, maxsteps=40
    )
