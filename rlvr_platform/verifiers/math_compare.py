"""Whether an answer of one shape is the gold answer of another. The gold answer leads: it says
whether order, multiplicity, brackets and names matter."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from rlvr_platform.config.verifiers_math import MathVerifier
from rlvr_platform.verifiers.math_expression import NotReadable
from rlvr_platform.verifiers.math_quantity import read_quantity
from rlvr_platform.verifiers.math_regions import is_region, same_region
from rlvr_platform.verifiers.math_relations import (
    exact_sides,
    flipped,
    is_equation,
    is_number,
    named,
    same_points,
)
from rlvr_platform.verifiers.math_scalar import same_scalar
from rlvr_platform.verifiers.math_structure import (
    Matrix,
    Relation,
    Scalar,
    Sequence,
    SetExpression,
    Shape,
    Words,
)
from rlvr_platform.verifiers.math_words import counted, same_words

_MIXED = re.compile(r"(-?\d{1,40}) (\d{1,40})/(\d{1,40})((?: [a-zA-Z ]+|\\text\{[^{}]*\})?)")
_MAX_SEARCHED = 40
"""Items of a list that are matched one by one, after those equal as text."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares under one policy. Methods raise NotReadable when an expression cannot be read and
    the texts differ."""

    policy: MathVerifier

    def same(self, gold: Shape, answer: Shape) -> bool:
        if _joined_otherwise(gold, answer):
            return False
        if gold == answer:
            return True
        if is_equation(gold) or is_equation(answer):
            return self._equations(gold, answer)
        if is_region(gold) or is_region(answer):
            return self._regions(gold, answer)
        if isinstance(gold, Relation) and isinstance(answer, Relation):
            return self._relations(gold, answer)
        if isinstance(gold, Words) or isinstance(answer, Words):
            return self._words(gold, answer)
        if isinstance(gold, Matrix) or isinstance(answer, Matrix):
            return self._matrices(gold, answer)
        if isinstance(gold, Sequence) or isinstance(answer, Sequence):
            return self._sequences(gold, answer)
        if isinstance(gold, Scalar) and isinstance(answer, Scalar):
            return same_scalar(gold.text, answer.text, self.policy)
        return False

    def _words(self, gold: Shape, answer: Shape) -> bool:
        if same_words(gold, answer):
            return True
        g, a = _in_digits(gold), _in_digits(answer)
        if isinstance(g, Scalar) and isinstance(a, Scalar):
            return self.same(g, a)
        return False

    def _regions(self, gold: Shape, answer: Shape) -> bool:
        worded = isinstance(gold, Words) or isinstance(answer, Words)
        if worded and same_words(gold, answer):
            return True
        if isinstance(gold, Scalar) and not is_region(gold):
            return False
        equal = same_region(gold, answer)
        if equal is not None:
            return equal
        if isinstance(gold, Relation) and isinstance(answer, Relation):
            return self._relations(gold, answer)
        if isinstance(gold, SetExpression) and isinstance(answer, SetExpression):
            return gold.operators == answer.operators and self._ordered(
                gold.operands, answer.operands
            )
        if isinstance(gold, Sequence) and isinstance(answer, Sequence):
            return self._sequences(gold, answer)
        return False

    def _equations(self, gold: Shape, answer: Shape) -> bool:
        if is_equation(gold) and is_equation(answer):
            assert isinstance(gold, Relation) and isinstance(answer, Relation)
            return self._two_equations(gold, answer)
        if isinstance(answer, Relation) and is_equation(answer):
            values = _values(answer)
            return bool(values) and self._any(gold, exact_sides(answer, values))
        assert isinstance(gold, Relation)
        return any(self.same(value, answer) for value in _values(gold))

    def _any(self, gold: Shape, values: tuple[Shape, ...]) -> bool:
        """All values that the answer gives have to be one; then it is compared."""
        pairs = [*pairwise(values), *((values[0], value) for value in values[2:])]
        if not all(self._consistent(a, b) for a, b in pairs):
            return False
        return self._either(gold, values)

    def _either(self, gold: Shape, values: tuple[Shape, ...]) -> bool:
        """Whether one of the values is the gold answer; those that cannot be read are passed over
        unless they all are."""
        unread: NotReadable | None = None
        equal = []
        for value in values:
            try:
                equal.append(self.same(gold, value))
            except NotReadable as problem:
                unread = problem
        if not equal and unread:
            raise unread
        return any(equal)

    def _consistent(self, a: Shape, b: Shape) -> bool:
        try:
            return self.same(a, b)
        except NotReadable:
            return True

    def _two_equations(self, gold: Relation, answer: Relation) -> bool:
        g, a = named(gold), named(answer)
        if g and a and self._same_name(g[0], a[0]):
            values = exact_sides(answer, a[1])
            return any(self._any(value, values) for value in g[1])
        if g and a and (renamed := _renamed(answer, a[0], g[0])):
            return self.same(gold, renamed)
        if g and a and all(map(is_number, (*g[1], *a[1]))):
            return False
        if len(gold.sides) == len(answer.sides) == 2:
            return same_points(gold, answer)
        return len(gold.sides) == len(answer.sides) and self._ordered(gold.sides, answer.sides)

    def _same_name(self, a: Shape, b: Shape) -> bool:
        if isinstance(a, Words) or isinstance(b, Words):
            return True
        if isinstance(a, Sequence) and isinstance(b, Sequence):
            return a == b
        if not isinstance(a, Scalar) or not isinstance(b, Scalar):
            return False
        return _bare(a.text) == _bare(b.text) or _is_graph(a.text, b.text)

    def _relations(self, gold: Relation, answer: Relation) -> bool:
        for candidate in (answer, flipped(answer)):
            if gold.operators == candidate.operators and self._ordered(gold.sides, candidate.sides):
                return True
        for candidate in (answer, flipped(answer)):
            if len(gold.sides) == 2 and gold.operators == candidate.operators:
                return same_points(gold, candidate)
        return False

    def _ordered(self, gold: tuple[Shape, ...], answer: tuple[Shape, ...]) -> bool:
        return len(gold) == len(answer) and all(
            self.same(g, a) for g, a in zip(gold, answer, strict=True)
        )

    def _matrices(self, gold: Shape, answer: Shape) -> bool:
        if isinstance(gold, Matrix) and isinstance(answer, Matrix):
            return len(gold.rows) == len(answer.rows) and all(
                self._ordered(g, a) for g, a in zip(gold.rows, answer.rows, strict=True)
            )
        matrix, other = (gold, answer) if isinstance(gold, Matrix) else (answer, gold)
        if not isinstance(matrix, Matrix) or not isinstance(other, Sequence):
            return False
        if (rows := _nested(other)) is not None:
            pair_of = (matrix, rows) if matrix is gold else (rows, matrix)
            return self._matrices(*pair_of)
        vector = _vector(matrix)
        if vector is None or other.kind not in ("()", "[]", "list"):
            return False
        pair = (vector, other.items) if matrix is gold else (other.items, vector)
        return self._ordered(*pair)

    def _ratios(self, gold: Sequence, answer: Sequence) -> bool:
        """a : b : c up to a common factor."""
        if len(gold.items) != len(answer.items):
            return False
        return self._ordered(gold.items, answer.items) or self._ordered(
            _to_first(gold), _to_first(answer)
        )

    def _sequences(self, gold: Shape, answer: Shape) -> bool:
        gold, answer = _fraction_of(gold, answer), _fraction_of(answer, gold)
        if isinstance(gold, Scalar) and isinstance(answer, Scalar):
            return self.same(gold, answer)
        if not isinstance(gold, Sequence):
            return self._one_of_many(gold, answer)
        if not isinstance(answer, Sequence):
            return (
                gold.kind in ("set", "list")
                and len(gold.items) == 1
                and self.same(gold.items[0], answer)
            )
        if gold.kind in ("list", "set") and answer.kind != ":":
            return self._collection(gold, answer)
        if gold.kind == answer.kind == ":":
            return self._ratios(gold, answer)
        if answer.kind != gold.kind and answer.kind != "list":
            return False
        return self._ordered(gold.items, answer.items)

    def _one_of_many(self, gold: Shape, answer: Shape) -> bool:
        """A single gold value: an answer of several is a guess, unless they are all it."""
        assert isinstance(answer, Sequence)
        if isinstance(gold, Scalar) and _spaced_number(answer) == gold.text:
            return True
        if mixed := _mixed_number(answer):
            return self.same(gold, mixed)
        if answer.kind not in ("set", "list") or len(answer.items) > _MAX_SEARCHED:
            return False
        return bool(answer.items) and all(self.same(gold, item) for item in answer.items)

    def _collection(self, gold: Sequence, answer: Sequence) -> bool:
        if answer.kind in ("()", "[]"):
            compound = any(isinstance(item, Sequence) for item in gold.items)
            return gold.kind == "list" and not compound and self._ordered(gold.items, answer.items)
        if gold.kind == answer.kind == "set":
            return self._covers(gold, answer) and self._covers(answer, gold)
        if labelled := _by_label(gold, answer):
            return self._ordered(gold.items, labelled)
        if _has_names(gold) and not _has_names(answer):
            return self._ordered(gold.items, answer.items)
        return self._matched(gold.items, answer.items)

    def _covers(self, gold: Sequence, answer: Sequence) -> bool:
        present = frozenset(answer.items)
        rest = [item for item in gold.items if item not in present]
        if len(rest) > _MAX_SEARCHED:
            return False
        return all(any(self.same(item, other) for other in answer.items) for item in rest)

    def _matched(self, gold: tuple[Shape, ...], answer: tuple[Shape, ...]) -> bool:
        """A pairing of equal items, whatever the order."""
        if len(gold) != len(answer):
            return False
        rest = Counter(gold) - Counter(answer)
        left = list((Counter(answer) - Counter(gold)).elements())
        if len(left) > _MAX_SEARCHED:
            return False
        for item in rest.elements():
            partner = next((i for i, other in enumerate(left) if self.same(item, other)), None)
            if partner is None:
                return False
            del left[partner]
        return True


def _in_digits(shape: Shape) -> Shape:
    """A number in words as a scalar."""
    digits = counted(shape.text) if isinstance(shape, Words) else ""
    return Scalar(digits) if digits else shape


def _values(equation: Relation) -> tuple[Shape, ...]:
    """The values that an equation gives; none when it is a constraint."""
    if found := named(equation):
        return found[1]
    return equation.sides if all(map(is_number, equation.sides)) else ()


def _renamed(answer: Relation, own: Shape, wanted: Shape) -> Relation | None:
    """f(t) = 2t as f(x) = 2x, when the gold answer calls its argument x."""
    if not isinstance(own, Scalar) or not isinstance(wanted, Scalar):
        return None
    mine, theirs = _called(own.text), _called(wanted.text)
    if not mine or not theirs or mine[0] != theirs[0] or mine[1] == theirs[1]:
        return None
    swap = re.compile(rf"(?<![\\a-zA-Z]){mine[1]}(?![a-zA-Z])")
    sides = tuple(
        Scalar(swap.sub(theirs[1], side.text)) if isinstance(side, Scalar) else side
        for side in answer.sides
    )
    return Relation(answer.operators, sides)


def _called(text: str) -> tuple[str, str] | None:
    match = re.fullmatch(r"([a-zA-Z])\s*\(\s*([a-z])\s*\)", text)
    return (match[1], match[2]) if match else None


def _to_first(ratio: Sequence) -> tuple[Shape, ...]:
    first, *rest = (item.text if isinstance(item, Scalar) else "" for item in ratio.items)
    return tuple(Scalar(f"\\frac{{{part}}}{{{first}}}") for part in rest)


def _fraction_of(shape: Shape, other: Shape) -> Shape:
    """A ratio of two as a fraction, where the other side is no ratio."""
    ratio = isinstance(shape, Sequence) and shape.kind == ":" and isinstance(other, Scalar)
    if not ratio or not isinstance(shape, Sequence) or len(shape.items) != 2:
        return shape
    above, below = (item.text if isinstance(item, Scalar) else "" for item in shape.items)
    return Scalar(f"\\frac{{{above}}}{{{below}}}")


def _by_label(gold: Sequence, answer: Sequence) -> tuple[Shape, ...] | None:
    """The answer's items in the order of the gold answer's, where words tell them apart."""
    labels = {_label(item): item for item in answer.items}
    wanted = [_label(item) for item in gold.items]
    distinct = len(set(wanted)) == len(wanted) == len(labels) == len(answer.items) > 1
    if not distinct or "" in wanted or set(wanted) != set(labels):
        return None
    return tuple(labels[label] for label in wanted)


def _label(item: Shape) -> str:
    if isinstance(item, Relation) and isinstance(item.sides[0], Words):
        return item.sides[0].text
    return read_quantity(item.text).unit if isinstance(item, Scalar) else ""


def _spaced_number(sequence: Sequence) -> str:
    """1, 234, 567 as 1234567; empty when it can only be a list."""
    digits = [item.text for item in sequence.items if isinstance(item, Scalar)]
    groups = len(digits) == len(sequence.items) > 1 and all(
        re.fullmatch(r"\d{3}", group) for group in digits[1:]
    )
    return "".join(digits) if groups and re.fullmatch(r"-?\d{1,3}", digits[0]) else ""


def _mixed_number(sequence: Sequence) -> Scalar | None:
    """5 and 3/4 as one number."""
    texts = [item.text for item in sequence.items if isinstance(item, Scalar)]
    joined = _MIXED.fullmatch(" ".join(texts)) if len(sequence.items) == 2 else None
    if sequence.joint != "\\and" or joined is None or int(joined[2]) >= int(joined[3]):
        return None
    return Scalar(f"{joined[1]}\\frac{{{joined[2]}}}{{{joined[3]}}}{joined[4]}")


def _is_graph(a: str, b: str) -> bool:
    """y beside f(x)."""
    return any(
        one == "y" and (f := _called(other)) and f[1] == "x" for one, other in ((a, b), (b, a))
    )


def _has_names(sequence: Sequence) -> bool:
    """Whether its items say what each is the value of: x = 1, Bob won 3."""
    return any(
        isinstance(item, Relation) or (isinstance(item, Scalar) and read_quantity(item.text).head)
        for item in sequence.items
    )


def _joined_otherwise(gold: Shape, answer: Shape) -> bool:
    """Red and blue is not red or blue; with numbers, data sets use either word."""
    if not isinstance(gold, Sequence) or not isinstance(answer, Sequence):
        return False
    words = all(isinstance(item, Words) for item in gold.items)
    return words and {gold.joint, answer.joint} == {"\\or", "\\and"}


def _vector(matrix: Matrix) -> tuple[Shape, ...] | None:
    if len(matrix.rows) == 1:
        return matrix.rows[0]
    if all(len(row) == 1 for row in matrix.rows):
        return tuple(row[0] for row in matrix.rows)
    return None


def _nested(sequence: Sequence) -> Matrix | None:
    """[[a, b], [c, d]] as a matrix."""
    rows = tuple(item.items for item in sequence.items if isinstance(item, Sequence))
    brackets = {sequence.kind, *(i.kind for i in sequence.items if isinstance(i, Sequence))}
    whole = len(rows) == len(sequence.items) > 0 and brackets <= {"[]", "()"}
    return Matrix(rows) if whole else None


def _bare(text: str) -> str:
    text = re.sub(r"\\frac\{d([a-z])\}\{d[a-z]\}", r"\1'", text)
    return re.sub(r"[\s{}]|\\text", "", text)
