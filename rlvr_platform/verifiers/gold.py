"""Gold answers that no completion could match: found at load, not as silent zeros in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlvr_platform.config.verifier import AnyVerifier
from rlvr_platform.config.verifiers_math import MathVerifier, NumericVerifier
from rlvr_platform.config.verifiers_more import ExactVerifier, GymVerifier
from rlvr_platform.errors import InputError
from rlvr_platform.types import Outcome, Prompt, Verdict
from rlvr_platform.verifiers.answer_marks import boxed
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool


@dataclass(frozen=True, slots=True)
class BadGold:
    """A prompt whose gold answer does not verify against itself."""

    index: int
    """`Prompt.index`: position in its source."""
    source: str
    where: str
    """`Prompt.origin`: the file and line it was read from."""
    gold: str
    reason: str


ANSWERS = (MathVerifier, NumericVerifier, ExactVerifier, GymVerifier)
"""Verifiers whose gold answer is itself an answer. Other gold texts are tests, schemas, rules."""


FIRST = 16
"""Gold answers after which a verifier that never answers is given up."""


def check_gold(prompts: Sequence[Prompt], pool: VerifierPool) -> list[BadGold]:
    """The prompts whose gold answer is of no use to the pool's verifier.

    An answer must be correct when a completion gives it. Of any other gold text an empty
    completion must get a verdict: a verifier that cannot read its gold text reaches none.
    Raises InputError when it never answers in time, before it has tried all prompts.
    """
    is_answer = isinstance(pool.config.use, ANSWERS)
    useless = (Outcome.TIMEOUT, Outcome.ERROR)
    items = [
        GradeItem(_completion(pool.config.use, prompt.gold), prompt.gold, prompt.options)
        for prompt in prompts
    ]
    first = pool.grade(items[:FIRST])
    if len(first) == FIRST and all(verdict.outcome is Outcome.TIMEOUT for verdict in first):
        raise InputError(
            f"none of the first {FIRST} gold answers gets a verdict in time: {first[0].rule}",
            "a verifier that can judge the gold answers themselves",
            "try it with `rlvr grade`; verifier.pool.deadline_s sets how long it may take",
        )
    return [
        _bad(prompt, verdict)
        for prompt, verdict in zip(prompts, first + pool.grade(items[FIRST:]), strict=True)
        if (verdict.outcome is not Outcome.CORRECT if is_answer else verdict.outcome in useless)
    ]


def _bad(prompt: Prompt, verdict: Verdict) -> BadGold:
    where = prompt.origin or f"{prompt.source}, prompt {prompt.index}"
    reason = f"{verdict.outcome}: {verdict.rule}"
    return BadGold(prompt.index, prompt.source, where, prompt.gold, reason)


def _completion(use: AnyVerifier, gold: str) -> str:
    if isinstance(use, MathVerifier):
        return boxed(gold)
    return gold if isinstance(use, ANSWERS) else ""
