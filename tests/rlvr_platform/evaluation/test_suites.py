import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest

from rlvr_platform.config.data import ArithmeticSource
from rlvr_platform.config.evaluation import SuiteConfig
from rlvr_platform.config.verifier import PoolConfig
from rlvr_platform.errors import VerifierError
from rlvr_platform.evaluation.suites import Suite, evaluate
from rlvr_platform.types import (
    FinishedGroups,
    GradedGroups,
    GroupSummary,
    Outcome,
    Prompt,
    Ticket,
    Verdict,
)

PROMPTS = [Prompt(i, "", np.zeros(1, np.int32), "", "s") for i in range(3)]


class Answers:
    """Engines and verifier in one: prompt i's completions have the outcomes given for it."""

    def __init__(self, outcomes: Sequence[Sequence[Outcome]]) -> None:
        self.outcomes = outcomes
        self.asked: list[tuple[int, int, float]] = []

    async def stream(
        self, tickets: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups]:
        for ticket in reversed(tickets):
            self.asked.append((ticket.prompt.index, ticket.n, temperature))
            lengths = np.arange(1, ticket.n + 1, dtype=np.int32)
            zeros = np.zeros(ticket.n, np.int32)
            summary = GroupSummary(
                ticket.group_id, 0, ticket.prompt.index, 1, lengths, lengths, zeros, zeros, 0.0, 1
            )
            yield FinishedGroups((summary,), None)

    async def grade(self, groups: FinishedGroups) -> GradedGroups:
        outcomes = [self.outcomes[summary.prompt_index] for summary in groups.summaries]
        verdicts = (tuple(Verdict(o, None, "", "", 0.0) for o in group) for group in outcomes)
        return GradedGroups(groups, tuple(verdicts))


POOL = PoolConfig(max_invalid_fraction=0.5)
C, W, N, E = Outcome.CORRECT, Outcome.WRONG, Outcome.NO_ANSWER, Outcome.ERROR


def run(outcomes: Sequence[Sequence[Outcome]], samples: int) -> tuple[Answers, dict[str, float]]:
    suite = Suite(
        SuiteConfig(name="s", source=ArithmeticSource(), samples=samples, temperature=0.6), PROMPTS
    )
    answers = Answers(outcomes)
    result = asyncio.run(evaluate(suite, answers, answers, 0, POOL))
    assert result.label == f"s avg@{samples}"
    assert result.avg.value == result.metrics[f"eval/s/avg@{samples}"]
    return answers, result.metrics


def test_worked_example() -> None:
    answers, metrics = run([[C, W], [C, C], [N, W]], samples=2)
    assert sorted(answers.asked) == [(0, 2, 0.6), (1, 2, 0.6), (2, 2, 0.6)]
    assert metrics["eval/s/avg@2"] == pytest.approx((0.5 + 1 + 0) / 3)
    assert metrics["eval/s/pass@2"] == pytest.approx(2 / 3)
    assert metrics["eval/s/length_correct"] == pytest.approx((1 + 1 + 2) / 3)
    assert metrics["eval/s/length_wrong"] == pytest.approx(2.0)


def test_a_completion_without_a_verdict_is_left_out_not_counted_wrong() -> None:
    _, metrics = run([[C, E], [C, C], [E, E]], samples=2)
    assert metrics["eval/s/avg@2"] == 1.0
    assert metrics["eval/s/pass@2"] == 1.0


def test_a_suite_that_is_mostly_unjudged_is_an_error_not_a_number() -> None:
    with pytest.raises(VerifierError, match="4 of 6 rollouts of suite s"):
        run([[C, E], [E, E], [W, E]], samples=2)


def test_lengths_of_an_outcome_that_did_not_occur_are_absent() -> None:
    _, metrics = run([[C], [C], [C]], samples=1)
    assert "eval/s/length_wrong" not in metrics
