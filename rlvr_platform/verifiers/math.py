"""Mathematics: the final answer of a completion against the gold answer.

Answer and gold are brought into one spelling (math_text), taken apart (math_structure) and compared
(math_compare). What that grammar cannot read goes to math-verify
(https://github.com/huggingface/Math-Verify), unless its cost has no bound. The only module that
imports math-verify.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Any

import math_verify

from rlvr_platform.config.verifiers_math import MathVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.answer import final_answer
from rlvr_platform.verifiers.answer_marks import boxed, last_box
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.math_clock import same_date, same_parts, same_time
from rlvr_platform.verifiers.math_compare import Comparison
from rlvr_platform.verifiers.math_expression import RECURSION_LIMIT, NotReadable
from rlvr_platform.verifiers.math_guards import bounded, restates, says_more
from rlvr_platform.verifiers.math_structure import read_shape
from rlvr_platform.verifiers.math_text import normalise
from rlvr_platform.verifiers.math_words import same_choice

# It warns that its time limits are off. They must be: they work by signals, which need the main
# thread and cannot stop a loop in C. The pool's deadline bounds every call instead.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_DELIMITED = re.compile(r"\s*(?:\$([^$]*)\$|\\\((.*)\\\)|\\\[(.*)\\\])\s*", re.DOTALL)
_LONGEST, _TIMES_GOLD = 16_000, 4
"""Characters of an answer, or times the gold answer's. Longer ones are no answers, and not every
step is linear in them."""
_OPENED, _CLOSED = re.compile(r"(?<!\\){"), re.compile(r"(?<!\\)}")
_NO_NOUNS = (
    "half|halves|thirds?|fourths?|quarters?|fifths?|sixths?|sevenths?|eighths?|ninths?|tenths?"
    "|over|times|plus|minus|to|out|of|or|and|divided|mod|dozen|hundred|thousand|million|billion"
)
_COUNTED = re.compile(rf"\\text\{{((-?\d[\d.,]*) (?!.*\b(?:{_NO_NOUNS})\b)[a-zA-Z ]+)\}}")
"""A gold answer that says what it counts: the whole, and the number."""
_WORD = re.compile(r"[a-zA-Z]{2}")
_SOMETHING = re.compile(r"[^\W_]|\\emptyset|\\infty|\\\{")


class MathEquivalence:
    """The final answer of the completion is mathematically equal to the gold answer."""

    def __init__(self, policy: MathVerifier | None = None) -> None:
        self._policy = policy or MathVerifier()
        sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
        # First calls build tables and choose a prime; forked workers inherit them.
        _same_for_math_verify(r"\frac{1}{2}", "0.5")
        self.verify(r"\boxed{x + \sqrt{2}}", r"\sqrt{2} + x", {})
        self.verify(r"\boxed{x + 1}", "1 + x", {})

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """`options` may override the policy's fields for this prompt.

        Raises ValueError when `gold` has nothing to compare with.
        """
        wanted = _read_gold(gold)
        answer = final_answer(prediction)
        if answer is None:
            return Finding(Outcome.NO_ANSWER, "", "no final answer")
        if len(answer.expression) > max(_LONGEST, _TIMES_GOLD * len(wanted)):
            return Finding(Outcome.WRONG, answer.text[:80], f"{answer.rule}: too long to compare")
        given = normalise(answer.expression)
        if not _SOMETHING.search(given):
            return Finding(Outcome.NO_ANSWER, "", f"{answer.rule}: no expression in it")
        equal, rule = _judge(wanted, given, _merged(self._policy, options))
        outcome = Outcome.CORRECT if equal else Outcome.WRONG
        return Finding(outcome, answer.expression.strip(), f"{answer.rule}, {rule}")


class _Incomparable(Exception):
    """A comparison that SymPy cannot make, such as 1 with complex infinity. That is no equality;
    as an error it would let a policy leave its group by writing such answers."""


@lru_cache(maxsize=4096)
def _read_gold(gold: str) -> str:
    text = last_box(gold) or gold
    if whole := _DELIMITED.fullmatch(text):
        text = next(part for part in whole.groups() if part is not None)
    text = normalise(text)
    if not _SOMETHING.search(text) or len(_OPENED.findall(text)) != len(_CLOSED.findall(text)):
        raise ValueError(f"the gold answer {gold[:80]!r} has no mathematics to compare with")
    return text


def _merged(policy: MathVerifier, options: Mapping[str, Any]) -> MathVerifier:
    own = {name: options[name] for name in MathVerifier.model_fields if name in options}
    return MathVerifier.model_validate({**policy.model_dump(), **own}) if own else policy


# The completions of one prompt often end in the same answer.
@lru_cache(maxsize=4096)
def _judge(wanted: str, given: str, policy: MathVerifier) -> tuple[bool, str]:
    if wanted == given:
        return True, "same text"
    if counted := _COUNTED.fullmatch(wanted):
        wanted = counted[1] if _WORD.search(given) else counted[2]
    if same_choice(wanted, given):
        return True, "same choice"
    if (equal := same_date(wanted, given)) is not None:
        return equal, "dates"
    if (equal := same_time(wanted, given)) is not None:
        return equal, "times of day"
    if (equal := same_parts(wanted, given)) is not None:
        return equal, "units side by side"
    if policy.unevaluated == "reject" and restates(wanted, given):
        return False, "not evaluated"
    try:
        equal = Comparison(policy).same(read_shape(wanted), read_shape(given))
        return equal, "compared"
    except NotReadable:
        pass
    except RecursionError:
        return False, "nested too deeply"
    return _judge_by_math_verify(wanted, given)


def _judge_by_math_verify(wanted: str, given: str) -> tuple[bool, str]:
    if says_more(wanted, given):
        return False, "words that qualify it"
    if not (bounded(wanted) and bounded(given)):
        return False, "too large to compare"
    try:
        return _same_for_math_verify(wanted, given), "math-verify"
    except _Incomparable:
        return False, "math-verify cannot compare them"


def _same_for_math_verify(gold: str, answer: str) -> bool:
    return any(_equal(g, a) for g, a in product(_parsed(boxed(gold)), _parsed(boxed(answer))))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> list[Any]:
    """SymPy expression and source text, as far as math-verify finds them."""
    return math_verify.parse(text, parsing_timeout=None, raise_on_error=True)


def _equal(gold: Any, found: Any) -> bool:
    try:
        return math_verify.verify(gold, found, timeout_seconds=None, raise_on_error=True)
    except (MemoryError, RecursionError):
        raise
    except Exception as problem:
        raise _Incomparable from problem
