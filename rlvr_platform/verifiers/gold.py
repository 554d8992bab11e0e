"""Gold answers that no completion could match: found at load, not as silent zeros in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlvr_platform.config.verifier import AnyVerifier, MathVerifier
from rlvr_platform.types import Outcome, Prompt, Verdict
from rlvr_platform.verifiers.answer import boxed
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


def check_gold(prompts: Sequence[Prompt], pool: VerifierPool) -> list[BadGold]:
    """Grade every gold answer as if a completion had given it; returns those not correct."""
    items = [
        GradeItem(_completion(pool.config.use, prompt.gold), prompt.gold, prompt.options)
        for prompt in prompts
    ]
    return [
        _bad(prompt, verdict)
        for prompt, verdict in zip(prompts, pool.grade(items), strict=True)
        if verdict.outcome is not Outcome.CORRECT
    ]


def _bad(prompt: Prompt, verdict: Verdict) -> BadGold:
    where = prompt.origin or f"{prompt.source}, prompt {prompt.index}"
    reason = f"{verdict.outcome}: {verdict.rule}"
    return BadGold(prompt.index, prompt.source, where, prompt.gold, reason)


def _completion(use: AnyVerifier, gold: str) -> str:
    return boxed(gold) if isinstance(use, MathVerifier) else gold
