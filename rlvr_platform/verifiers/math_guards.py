"""What is not handed to a general computer algebra system: texts whose meaning it would drop, and
expressions whose cost has no bound."""

from __future__ import annotations

import re

_LEFT_TO_DO = re.compile(r"\\(sum|prod|int|iint|oint|lim|det|gcd|lcm|max|min|sup|inf)(?![a-zA-Z])")
_PLAIN_CALL = re.compile(r"(?<![\\a-zA-Z])(gcd|lcm|max|min|det)\s*\(")
_LETTERS = re.compile(r"[a-zA-Z]{3,}")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_BIG_FACTORIAL = re.compile(r"\d{4,}\s*\)?\s*!|!\s*\)?\s*!")
_BIG_NUMBER = re.compile(r"\d{400,}")
_EXPONENT = re.compile(r"(?:\^|\*\*)\s*[{(]*\s*-?\d{4,}|[eE]-?\d{4,}")
_TOWER = re.compile(r"\^\s*(?:\{[^{}]*\^|\([^()]*\^|\w\s*\^)")
_MANY_TERMS = re.compile(r"\\binom\s*\{?\d{4,}|\\(?:sum|prod)[^=]*=[^^]*\^\s*\{?\s*\d{4,}")
_LONGEST = 1000
_DEEPEST = 40


def restates(gold: str, answer: str) -> bool:
    """Whether the answer leaves an operation to do that the gold answer does not have."""
    return not _operations(_last_side(answer)) <= _operations(gold)


def _last_side(text: str) -> str:
    """What stands behind the last equality sign outside of all brackets."""
    depth = start = 0
    for at, character in enumerate(text):
        depth += (character in "({[") - (character in ")}]")
        if character == "=" and depth == 0:
            start = at + 1
    return text[start:]


def _operations(text: str) -> set[str]:
    return {m[1] for pattern in (_LEFT_TO_DO, _PLAIN_CALL) for m in pattern.finditer(text)}


def says_more(gold: str, answer: str) -> bool:
    """Whether the answer has words that the gold answer does not have; they would be dropped."""
    return not _words(answer) <= _words(gold) or ("\\ldots" in answer and "\\ldots" not in gold)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _LETTERS.findall(_COMMAND.sub(" ", text))}


def bounded(text: str) -> bool:
    """Whether parsing, evaluating and simplifying `text` surely ends soon."""
    if len(text) > _LONGEST or _depth(text) > _DEEPEST:
        return False
    if text.count("\\pm") > 3 or len(set(re.findall(r"(?<![\\a-zA-Z])[a-zA-Z]", text))) > 12:
        return False
    costly = (_BIG_FACTORIAL, _BIG_NUMBER, _EXPONENT, _MANY_TERMS, _TOWER)
    return not any(pattern.search(text) for pattern in costly)


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        deepest = max(deepest, depth)
    return deepest
