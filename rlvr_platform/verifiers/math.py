"""Mathematics: equivalence by math-verify (https://github.com/huggingface/Math-Verify).

The only module that imports math-verify.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Any

import math_verify

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.answer import boxed, final_answer, last_box, trim
from rlvr_platform.verifiers.base import Finding

# It warns that its time limits are off. They must be: they work by signals, which need the main
# thread and cannot stop a loop in C. The pool's deadline bounds every call instead.
logging.getLogger("math_verify").setLevel(logging.ERROR)


class MathEquivalence:
    """The final answer of the completion is mathematically equal to the gold answer."""

    def __init__(self) -> None:
        # The first call builds the LaTeX parser's tables; forked workers inherit them.
        self.verify(boxed(r"\frac{1}{2}"), "0.5", {})

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when `gold` cannot be parsed."""
        wanted = _parse_gold(gold)
        answer = final_answer(prediction)
        if answer is None:
            return Finding(Outcome.NO_ANSWER, "", "no final answer")
        found = _parse(answer.context)
        if not found:
            return Finding(Outcome.NO_ANSWER, "", f"{answer.rule}: no expression in it")
        equal = any(_equal(g, f) for g, f in product(wanted, found))
        # The last parse is the text that was read, where the form does not bound the answer.
        extracted = str(found[-1]) if answer.context == answer.text else answer.text
        outcome = Outcome.CORRECT if equal else Outcome.WRONG
        return Finding(outcome, extracted, f"{answer.rule}, math-verify")


@lru_cache(maxsize=4096)
def _parse_gold(gold: str) -> tuple[Any, ...]:
    # Bare gold answers parse badly: math-verify expects prose with marked mathematics.
    parsed = _parse(boxed(trim(last_box(gold) or gold)))
    if not parsed:
        raise ValueError(f"the gold answer {gold[:80]!r} has no mathematics to compare with")
    return tuple(parsed)


def _parse(text: str) -> list[Any]:
    """SymPy expression and source text, as far as math-verify finds them."""
    return math_verify.parse(text, parsing_timeout=None, raise_on_error=True)


def _equal(gold: Any, found: Any) -> bool:
    try:
        return math_verify.verify(gold, found, timeout_seconds=None, raise_on_error=True)
    except (MemoryError, RecursionError):
        raise
    except Exception:
        # Comparisons that SymPy cannot make (1 with complex infinity) are not equalities.
        return False
