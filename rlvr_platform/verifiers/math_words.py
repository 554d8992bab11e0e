"""Answers in words, spelled numbers and lettered choices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlvr_platform.verifiers.math_structure import Scalar, Sequence, Shape, Words

_ARTICLES = re.compile(r"\b(?:the|a|an|is|are|answer)\b")
_NOTHING = frozenset(
    ("no solution", "no solutions", "no real solution", "no real solutions", "none", "empty set")
)
_UNDEFINED = frozenset(("dne", "does not exist", "undefined", "not defined"))
_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_NUMBER_WORDS = _COUNTED.split()
_PARTS = [
    "whole",
    "half",
    *["third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"],
]
_CHOICE = re.compile(r"\(?([A-H])\)?")
_CHOSEN = re.compile(r"(?:\\text\{)?\s*(?:\(([A-H])\)|([A-H])(?=[.:)])).*", re.DOTALL)


def same_choice(gold: str, answer: str) -> bool:
    """A lettered choice may be followed by what it stands for."""
    wanted, given = _CHOICE.fullmatch(gold), _CHOSEN.fullmatch(answer)
    return bool(wanted and given) and wanted[1] == (given[1] or given[2])  # type: ignore[index]


def spelled(text: str) -> str:
    """A number in words as digits: seven, three quarters; empty for anything else."""
    words = text.replace("quarter", "fourth").replace("halves", "half").split()
    numbers = [_NUMBER_WORDS.index(word) for word in words[:1] if word in _NUMBER_WORDS]
    if len(words) == 2 and numbers and words[1].removesuffix("s") in _PARTS[1:]:
        return f"\\frac{{{numbers[0]}}}{{{_PARTS.index(words[1].removesuffix('s')) + 1}}}"
    return str(numbers[0]) if numbers and len(words) == 1 else ""


def same_words(gold: Shape, answer: Shape) -> bool:
    """Equal but for articles, case and punctuation, or by the few synonyms above."""
    return not _word_forms(gold).isdisjoint(_word_forms(answer))


def _word_forms(shape: Shape) -> set[str]:
    return set(_forms(shape))


def _forms(shape: Shape) -> Iterator[str]:
    if isinstance(shape, Words):
        text = " ".join(_ARTICLES.sub(" ", shape.text).split())
        yield text.replace(" ", "")
        if text in _NOTHING:
            yield "{}"
        if text in _UNDEFINED:
            yield "undefined value"
    elif isinstance(shape, Scalar):
        bare = re.sub(r"\\text|[\s{}()]", "", shape.text).lower()
        yield "{}" if bare == "\\emptyset" else bare
    elif isinstance(shape, Sequence) and not shape.items:
        yield "{}"
