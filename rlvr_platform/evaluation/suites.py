"""Held-out suites, evaluated through the same ports as training."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.config.evaluation import SuiteConfig
from rlvr_platform.config.verifier import PoolConfig
from rlvr_platform.errors import ClusterError
from rlvr_platform.evaluation.estimators import Estimate, avg_at_k, bootstrap, pass_at_k
from rlvr_platform.ports import Rollouts, Verdicts
from rlvr_platform.tickets import ticket_seed
from rlvr_platform.types import (
    FinishedGroups,
    GroupSummary,
    Outcome,
    Prompt,
    Quarantined,
    Ticket,
    Verdict,
)
from rlvr_platform.verifiers.health import require_verdicts

IN_FLIGHT = 512
"""Prompts handed to the engines at one time: a group's deadline runs while it queues."""

Graded = tuple[GroupSummary, tuple[Verdict, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Suite:
    config: SuiteConfig
    prompts: Sequence[Prompt]


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a suite measured; a completion without a verdict is left out, not counted wrong."""

    name: str
    samples: int
    avg: Estimate
    metrics: dict[str, float]

    @property
    def label(self) -> str:
        return f"{self.name} avg@{self.samples}"


async def evaluate(
    suite: Suite, rollouts: Rollouts, verdicts: Verdicts, seed: int, pool: PoolConfig
) -> SuiteResult:
    """Sample and grade every prompt of the suite under the engines' present weights.

    Raises VerifierError when more completions have no verdict than `pool` allows.
    """
    tickets = [
        Ticket(-1 - i, 0, prompt, suite.config.samples, ticket_seed(seed, i))
        for i, prompt in enumerate(suite.prompts)
    ]
    graded: list[Graded] = []
    for start in range(0, len(tickets), IN_FLIGHT):
        chunk = tickets[start : start + IN_FLIGHT]
        graded += await _roll_out(chunk, suite.config.temperature, rollouts, verdicts)
    flat = [verdict for _, group in graded for verdict in group]
    require_verdicts(flat, pool, f"suite {suite.config.name}")
    return summarise_suite(suite.config, graded, seed)


async def _roll_out(
    tickets: Sequence[Ticket], temperature: float, rollouts: Rollouts, verdicts: Verdicts
) -> list[Graded]:
    async with asyncio.TaskGroup() as grading:
        tasks = [
            grading.create_task(verdicts.grade(_require_rollouts(groups)))
            async for groups in rollouts.stream(tickets, temperature)
        ]
    return [
        (summary, verdict)
        for groups in (task.result() for task in tasks)
        for summary, verdict in zip(groups.finished.summaries, groups.verdicts, strict=True)
    ]


def _require_rollouts(settled: FinishedGroups | Quarantined) -> FinishedGroups:
    """A suite without one of its prompts would be another suite."""
    if isinstance(settled, FinishedGroups):
        return settled
    prompt = settled.ticket.prompt
    raise ClusterError(
        f"no rollouts of prompt {prompt.index} of {prompt.source} ({prompt.origin}), after "
        f"several tries: {settled.reason}",
        "rollouts of every prompt of an evaluation suite",
        "see the rollout workers' logs; remove the prompt from the suite",
    )


def summarise_suite(config: SuiteConfig, graded: Sequence[Graded], seed: int) -> SuiteResult:
    """Estimates over prompts, in the order of the prompts whatever order groups finished in."""
    ordered = sorted(graded, key=lambda group: -group[0].group_id)
    correct = np.array([_count(group, {Outcome.CORRECT}) for group in ordered])
    judged = np.array(
        [_count(group, {Outcome.CORRECT, Outcome.WRONG, Outcome.NO_ANSWER}) for group in ordered]
    )
    full = judged == config.samples
    avg = bootstrap(avg_at_k(correct[judged > 0], judged[judged > 0]), seed=seed)
    passed = pass_at_k(correct[full], judged[full], config.samples)
    prefix, k = f"eval/{config.name}", config.samples
    metrics = {f"{prefix}/avg@{k}": avg.value, **_lengths(prefix, ordered)}
    if full.any():
        metrics[f"{prefix}/pass@{k}"] = float(passed.mean())
    return SuiteResult(config.name, k, avg, metrics)


def _count(group: Graded, outcomes: set[Outcome]) -> int:
    return sum(verdict.outcome in outcomes for verdict in group[1])


def _lengths(prefix: str, groups: Sequence[Graded]) -> dict[str, float]:
    lengths = np.concatenate([summary.lengths for summary, _ in groups])
    outcomes = [verdict.outcome for _, verdicts in groups for verdict in verdicts]
    metrics = {}
    for outcome in (Outcome.CORRECT, Outcome.WRONG):
        chosen = lengths[[o is outcome for o in outcomes]]
        if len(chosen):
            metrics[f"{prefix}/length_{outcome}"] = float(chosen.mean())
    return metrics
