r"""The shape of an answer: one scalar, words, a list, a tuple, a set, a union of intervals, a
relation, a matrix. Text goes in, in the dialect of math_text; no expression is parsed here."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

from rlvr_platform.verifiers.math_expression import FUNCTIONS
from rlvr_platform.verifiers.math_text import without_separators

MAX_ITEMS = 20_000
MAX_NESTED = 2_000_000
"""Tokens times the depth of brackets, which is what taking an answer apart costs."""
MAX_SIGNS = 4
"""Plus-minus signs of one expression that are written out."""
_OPEN, _CLOSE = {"(", "[", "{", "\\{"}, {")", "]", "}", "\\}"}
_SEPARATORS = ("\\or", "\\and", ",", ";")
_RELATIONS = {"=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\approx", "\\equiv", "\\notin"}
_RELATIONS |= {"\\nequiv", "\\nsubset", "\\nsubseteq", "\\nmid", "\\nle", "\\nge"}
_SET_OPERATORS = {"\\cup", "\\cap", "\\setminus"}
_TOKEN = re.compile(
    r"\\text\{[^{}]*\}|\\begin\{[a-z]+\*?\}|\\end\{[a-z]+\*?\}|\\[a-zA-Z]+|\\.|[\w ]+|.", re.DOTALL
)
_MATRIX = re.compile(r"\\begin\{([pbvBV]?matrix|array|smallmatrix)\}(.*)\\end\{\1\}", re.DOTALL)
_CASES = re.compile(r"\\begin\{cases\}(.*&.*)\\end\{cases\}", re.DOTALL)
_CONDITION = re.compile(r"\\text\{\s*(?:if|for|when|where)\s*\}|\b(?:if|for|when|where)\b")
_SCALED_MATRIX = re.compile(
    r"([^&]*?[^&\\a-zA-Z])\s*(?:\\cdot|\\times|\*)?\s*"
    r"(\\begin\{([pbB]?matrix|array|smallmatrix)\}(?:(?!\\begin).)*\\end\{\3\})",
    re.DOTALL,
)
_TRANSPOSED = re.compile(
    r"(.*[)\]}])\s*\^\s*\{?\s*(?:\\text\s*\{\s*)?(?:T|\\top|\\intercal)(?:\s*\}){0,2}", re.DOTALL
)
_WORDS = re.compile(r"(?:\\text\{[^{}]*\}|[a-zA-Z' .-])+")
_LABELLED = re.compile(r"(?:\\text\{)?([A-Za-z][A-Za-z ]{2,}?)\}?\s*:\s*\}?(.*\d.*)")
_SIGN = re.compile(r"(\\pm|\\mp)\s*")
_LETTERS = re.compile(r"(?<![\\a-zA-Z])(?=[a-zA-Z]*[aeiouAEIOU]|[a-zA-Z]{4})[a-zA-Z]{3,}")


@dataclass(frozen=True, slots=True)
class Scalar:
    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """Lower case, without punctuation."""

    text: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Several items. `kind`: list (no brackets), set, a ratio's colon, or brackets such as (]."""

    kind: str
    items: tuple[Shape, ...]
    joint: str = field(default="", compare=False)
    """What separates the items of a list: \\or, \\and, or a comma or semicolon; the first of
    these when several do."""


@dataclass(frozen=True, slots=True)
class SetExpression:
    """Operands joined by \\cup, \\cap or \\setminus."""

    operators: tuple[str, ...]
    operands: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Builder:
    """{variable | condition}."""

    variable: str
    condition: Shape


@dataclass(frozen=True, slots=True)
class Relation:
    """sides[0] operators[0] sides[1] operators[1] ..."""

    operators: tuple[str, ...]
    sides: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[tuple[Shape, ...], ...]


Shape = Scalar | Words | Sequence | SetExpression | Builder | Relation | Matrix


@lru_cache(maxsize=4096)
def read_shape(text: str) -> Shape:
    """The shape of `text`."""
    text = text.strip()
    if words := _words(text):
        return Words(words)
    return _shape(without_separators(text))


def _shape(text: str) -> Shape:
    text = text.strip()
    if text.isdigit():
        return Scalar(text)
    if not re.search(r"[,;:=<>(\[{|\\]", text):
        return _plain(text)
    tokens = _Tokens(text)
    if tokens.depth * len(tokens.tokens) > MAX_NESTED:
        return _plain(text)
    parts, found = tokens.listed()
    if 1 < len(parts) <= MAX_ITEMS:
        joint = next(mark for mark in _SEPARATORS if mark in found)
        return Sequence("list", _flat(tuple(map(_shape, parts))), joint)
    if labelled := _LABELLED.fullmatch(text):
        return Relation(("=",), (Words(labelled[1].lower()), _shape(labelled[2])))
    parts, found = tokens.split(_RELATIONS)
    if found:
        return Relation(tuple(found), tuple(map(_shape, parts)))
    parts, found = tokens.split(_SET_OPERATORS)
    if found:
        return SetExpression(tuple(found), tuple(map(_shape, parts)))
    parts, found = tokens.split({":"})
    if found and all(parts):
        return Sequence(":", tuple(map(_shape, parts)))
    return _bracketed(text, tokens.tokens)


class _Tokens:
    """A text in tokens; those outside all brackets may split it."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = _TOKEN.findall(text)
        self._outside: list[int] = []
        self.depth = depth = 0
        for at, token in enumerate(self.tokens):
            if token in _OPEN or token.startswith("\\begin"):
                depth += 1
                self.depth = max(self.depth, depth)
            elif token in _CLOSE or token.startswith("\\end"):
                depth -= 1
            elif depth == 0:
                self._outside.append(at)

    def split(self, marks: Collection[str]) -> tuple[list[str], list[str]]:
        """The parts between these marks, and the marks."""
        cuts = [at for at in self._outside if self.tokens[at] in marks]
        ends = zip([-1, *cuts], [*cuts, len(self.tokens)], strict=True)
        parts = ["".join(self.tokens[start + 1 : end]).strip() for start, end in ends]
        return parts, [self.tokens[at] for at in cuts]

    def listed(self) -> tuple[list[str], list[str]]:
        """The items of a list, empty ones left out, and what separates them."""
        parts, found = self.split(_SEPARATORS)
        return [part for part in parts if part], found


def _bracketed(text: str, tokens: list[str]) -> Shape:
    if match := _MATRIX.fullmatch(text):
        return _matrix(match[1], match[2], text)
    if match := _CASES.fullmatch(text):
        return _cases(match[1])
    if match := _SCALED_MATRIX.fullmatch(text):
        return _scaled(match[1], _shape(match[2]), text)
    turned = _TRANSPOSED.fullmatch(text)
    if turned and not _TRANSPOSED.fullmatch(turned[1]):
        return _transposed(_shape(turned[1]), text)
    if not _one_group(tokens):
        return _plain(text)
    inner = "".join(tokens[1:-1]).strip()
    if tokens[0] == "\\{":
        return _set(inner)
    if tokens[0] == "{":
        return _shape(inner)
    content = _shape(inner) if inner else Scalar("")
    if isinstance(content, Sequence) and content.kind == "list":
        return _tuples(tokens[0] + tokens[-1], inner, content)
    return content


def _flat(items: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Lists inside a list, which a plus-minus sign makes, become part of it."""
    parts = [i.items if isinstance(i, Sequence) and i.kind == "list" else (i,) for i in items]
    return tuple(item for part in parts for item in part)


def _tuples(kind: str, inner: str, content: Sequence) -> Shape:
    """(a, \\pm b) is two pairs."""
    if not _SIGN.search(inner):
        return Sequence(kind, content.items)
    parts, _ = _Tokens(inner).listed()
    choices = [s.items if isinstance(s := _shape(part), Sequence) else (s,) for part in parts]
    return Sequence("list", tuple(Sequence(kind, items) for items in product(*choices)))


def _signed(text: str) -> Shape:
    r"""x \pm y as the list x + y, x - y; \mp has the opposite of the last \pm."""
    count = text.count("\\pm")
    if count > MAX_SIGNS:
        return Scalar(text)
    texts = [_with_signs(text, signs) for signs in product("+-", repeat=max(count, 1))]
    return Sequence("list", tuple(map(Scalar, texts)))


def _with_signs(text: str, signs: tuple[str, ...]) -> str:
    left = iter(signs)
    opposite = "- " if signs[0] == "+" else "+ "
    chosen = _SIGN.sub(lambda m: next(left) + " " if m[1] == "\\pm" else opposite, text)
    return chosen.strip().removeprefix("+").strip()


def _one_group(tokens: list[str]) -> bool:
    """Whether the first bracket closes at the end. Half-open intervals mix two kinds."""
    if tokens[0] not in _OPEN or tokens[-1] not in _CLOSE:
        return False
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 0:
            return at == len(tokens) - 1
    return False


def _set(inner: str) -> Shape:
    parts, found = _Tokens(inner).split({"|", ":"})
    if len(found) == 1 and not _LETTERS.search(parts[0]):
        name = re.sub(r"\\in\b.*", "", parts[0]).strip()
        return Builder(name, _shape(parts[1]))
    content = _shape(inner) if inner else Sequence("list", ())
    if isinstance(content, Sequence) and content.kind == "list":
        return Sequence("set", content.items)
    return Sequence("set", (content,))


def _matrix(kind: str, inner: str, text: str) -> Shape:
    if kind in ("vmatrix", "Vmatrix"):
        return Scalar(text)
    inner = re.sub(r"^\s*\{[^{}]*\}", "", inner) if kind == "array" else inner
    rows = [row for row in re.split(r"\\\\|\\cr\b", inner) if row.strip()]
    return Matrix(tuple(tuple(_shape(cell) for cell in row.split("&")) for row in rows))


def _cases(inner: str) -> Shape:
    """A function by cases: pairs of value and condition, in any order."""
    rows = [row.split("&") for row in re.split(r"\\\\", inner) if row.strip()]
    cells = [[_CONDITION.sub("", cell).strip(" ,;.") for cell in row] for row in rows]
    return Sequence("list", tuple(Sequence("()", tuple(map(_shape, row))) for row in cells))


def _scaled(factor: str, matrix: Shape, text: str) -> Shape:
    """A number times a matrix, multiplied in."""
    if not isinstance(matrix, Matrix):
        return Scalar(text)
    rows = [[_times(factor, cell) for cell in row] for row in matrix.rows]
    return Matrix(tuple(map(tuple, rows)))


def _transposed(shape: Shape, text: str) -> Shape:
    """(a, b)^T is a column."""
    if isinstance(shape, Matrix) and len({len(row) for row in shape.rows}) == 1:
        return Matrix(tuple(zip(*shape.rows, strict=True)))
    if isinstance(shape, Sequence) and shape.kind in ("()", "[]"):
        return Matrix(tuple((item,) for item in shape.items))
    return _plain(text)


def _times(factor: str, cell: Shape) -> Shape:
    minus = factor.strip() == "-"
    if not isinstance(cell, Scalar):
        return cell
    return Scalar(f"-({cell.text})" if minus else f"({factor})({cell.text})")


def _plain(text: str) -> Shape:
    if "\\pm" in text or "\\mp" in text:
        return _signed(text)
    words = _words(text)
    return Words(words) if words else Scalar(text)


def _words(text: str) -> str:
    """The words that `text` is, empty when it is mathematics."""
    if not _WORDS.fullmatch(text):
        return ""
    bare = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text)
    marked = bare != text
    if re.search(r"[\d=<>+*/^\\]", bare):
        return ""
    if bare.strip().lower() == "no":
        return "no"
    word = _LETTERS.search(bare)
    if not marked and (word is None or word[0] in FUNCTIONS):
        return ""
    return " ".join(re.findall(r"[a-z]+", bare.lower()))
