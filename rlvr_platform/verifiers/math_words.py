"""Answers in words, spelled numbers and lettered choices."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlvr_platform.verifiers.math_quantity import SCALES
from rlvr_platform.verifiers.math_structure import Scalar, Sequence, Shape, Words

_ARTICLES = re.compile(r"\b(?:there|it|the|a|an|is|are|answer)\b")
_NOTHING = frozenset(
    ("no solution", "no solutions", "no real solution", "no real solutions", "none", "empty set")
)
_UNDEFINED = frozenset(("dne", "does not exist", "undefined", "not defined"))
_COUNTED = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty"
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_COUNT = {word: value for value, word in enumerate(_COUNTED.split())}
_COUNT |= {word: 10 * tens for tens, word in enumerate(_TENS, start=2)}
_ORDINALS = {"first": "one", "second": "two", "third": "three", "fifth": "five"}
_ORDINALS |= {"eighth": "eight", "ninth": "nine", "twelfth": "twelve"}
_NEGATIVE = re.compile(r"(?:negative|minus) ")
_PARTS = [
    "whole",
    "half",
    *["third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"],
]
_MOST_NOUNS = 4
_LONGEST_NUMBER = 400
"""Characters of a number in words."""
_CONTINUING = "and or of to by times plus minus divided more less fewer hundred half"
_NO_NOUNS = frozenset(_CONTINUING.split())
_POINTING = frozenset(["one", "first", "second", "third", "quarter", "half"])
_NUMBER_WORD = "|".join(
    (
        "hundred|thousand|million|billion|dozen|quarters?|hal(?:f|ves)",
        *_COUNT,
        *(f"{name.removesuffix('y')}(?:ie)?ths?" for name in _COUNT),
        *(f"{name}s?" for name in _ORDINALS),
    )
)
_RUN = re.compile(
    r"(?<!\bthe )(?<!\bof )(?<!these )(?<!those )(?<!both )(?<!other )(?<!step )(?<![\w-])"
    rf"(?:a (?=half|dozen|hundred|quarter|third|million))?(?:{_NUMBER_WORD})"
    rf"(?:(?:,? and (?:a )?| a |, |[ -])(?:{_NUMBER_WORD}))*(?![\w-])",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\(?([A-H])\)?")
_CHOSEN = re.compile(r"(?:\\text\{)?\s*(?:\(([A-H])\)|([A-H])(?=[.:)]))")
_OTHER_CHOICE = re.compile(r"\([A-H]\)|(?<![\w\\])[B-H](?![\w'])|\\or\b")


def same_choice(gold: str, answer: str) -> bool:
    """A lettered choice may be followed by what it stands for."""
    wanted, given = _CHOICE.fullmatch(gold), _CHOSEN.match(answer)
    if not wanted or not given or _OTHER_CHOICE.search(answer, given.end()):
        return False
    return wanted[1] == (given[1] or given[2])


def spelled(text: str) -> str:
    """A number in words as digits: forty-two, seventh, three quarters, two and a half, negative
    infinity; empty for anything else."""
    if len(text) > _LONGEST_NUMBER:
        return ""
    if sign := _NEGATIVE.match(text):
        positive = spelled(text[sign.end() :])
        return f"-{positive}" if positive else ""
    if text == "infinity":
        return "\\infty"
    if fraction := _spelled_fraction(text):
        return fraction
    if text.endswith(" dozen"):
        dozens = _counted(text.removeprefix("a ").split()[:-1] or ["one"])
        return "" if dozens is None else str(12 * dozens)
    whole, joined, part = text.partition(" and ")
    if joined and (fraction := _spelled_fraction(part)):
        count = _counted(whole.split())
        return "" if count is None else f"{count}{fraction}"
    count = _counted(_cardinal(text).split())
    return "" if count is None else str(count)


def spelled_in(sentence: str) -> list[tuple[int, str]]:
    """The numbers in words in a sentence: where each begins, and its digits.

    None of those that point at something (the two, both of them) or stand for no number (one).
    """
    runs = [(run.start(), run[0].lower().replace("-", " ")) for run in _RUN.finditer(sentence)]
    found = [(at, spelled(words.replace(",", ""))) for at, words in runs if words not in _POINTING]
    return [(at, digits) for at, digits in found if digits]


def counted(text: str) -> str:
    """A number in words as digits, with up to four words for what is counted: forty-two such
    integers; empty for anything else."""
    if digits := spelled(text):
        return digits
    words = text.split()
    for end in range(len(words) - 1, max(len(words) - 1 - _MOST_NOUNS, 0), -1):
        nouns = words[end:]
        digits = spelled(" ".join(words[:end]))
        rest = nouns[1:] if nouns[0] == "of" and digits.startswith("\\frac") else nouns
        if digits and not any(word in _NO_NOUNS or spelled(word) for word in rest):
            return f"{digits}\\text{{ {' '.join(nouns)}}}"
    return ""


def _spelled_fraction(text: str) -> str:
    words = text.replace("quarter", "fourth").replace("halves", "half").split()
    if len(words) > 1 and (scale := SCALES.get(words[-1])):  # half a million
        part = _spelled_fraction(" ".join(words[:-1]).removesuffix(" of").removesuffix(" a"))
        return f"{part}\\cdot {scale}" if part else ""
    if words == ["half"]:
        return "\\frac{1}{2}"
    if len(words) != 2 or words[1].removesuffix("s") not in _PARTS[1:]:
        return ""
    above = 1 if words[0] == "a" else _COUNT.get(words[0], 20)
    below = _PARTS.index(words[1].removesuffix("s")) + 1
    return f"\\frac{{{above}}}{{{below}}}" if above < 20 else ""


def _cardinal(text: str) -> str:
    """With the ordinal at the end as a number: twenty third as twenty three."""
    before, blank, last = text.rpartition(" ")
    last = _ORDINALS.get(last) or last.removesuffix("th")
    return before + blank + (last[:-2] + "y" if last.endswith("tie") else last)


def _counted(words: list[str]) -> int | None:
    """The value of a number in words; None when they are not one."""
    total = group = 0
    place = 1000  # what the next word has to be smaller than
    for word in words:
        value = _COUNT.get(word)
        if value is not None and (value < place or not group):
            group, place = group + value, 10 if value >= 20 else 1
        elif word == "hundred" and 0 < group < 100:
            group, place = group * 100, 100
        elif word in SCALES and SCALES[word] >= 1000 and group:
            total, group, place = total + group * SCALES[word], 0, 1000
        elif word != "and" or not (total or group):
            return None
    is_number = bool(total) or place < 1000
    return total + group if is_number else None


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
