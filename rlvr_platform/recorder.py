"""From what happened in a step to its line in metrics.jsonl, its screen and its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr_platform.allocation.calibration import brier
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.evaluation.estimators import Estimate
from rlvr_platform.evaluation.suites import SuiteResult
from rlvr_platform.files import read_json_lines
from rlvr_platform.replay.buffer import BufferState
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.live import LiveView
from rlvr_platform.telemetry.progress import RunSummary
from rlvr_platform.telemetry.sinks import EventsLog, MetricsLog
from rlvr_platform.types import (
    Allocation,
    GradedGroup,
    LearnerReport,
    LoadReport,
    Observation,
    Prompt,
    WeightSnapshot,
)


@dataclass(frozen=True, slots=True)
class Update:
    """An update whose weights are published and proven."""

    learned: LearnerReport
    snapshot: WeightSnapshot
    loaded: LoadReport


@dataclass(frozen=True, slots=True)
class TimedAllocation:
    """A step's allocation and the seconds the decision took, calls included."""

    allocation: Allocation
    seconds: float


def update_metrics(update: Update) -> dict[str, float]:
    """The metrics of an update that took place."""
    learned, snapshot, loaded = update.learned, update.snapshot, update.loaded
    return {
        **(_learned(learned) if learned.tokens else {}),
        "learner/skipped_updates": learned.skipped_updates,
        "optimizer_steps": learned.optimizer_steps,
        "micro_batches": learned.micro_batches,
        "sync/bytes": snapshot.nbytes,
        "sync/probe_max_abs_diff": loaded.probe_max_abs_diff,
        "time/learn": learned.seconds,
        "time/sync": snapshot.seconds + loaded.seconds,
    }


def _learned(report: LearnerReport) -> dict[str, float]:
    """What is measured on trained tokens; there are none when every optimizer step was skipped."""
    return {
        "loss/policy": report.loss,
        "grad/norm": report.grad_norm,
        "learning_rate": report.learning_rate,
        "policy/entropy": report.entropy,
        "policy/kl_behaviour": report.kl_behaviour,
        "policy/kl_reference": report.kl_reference,
        "policy/clip_fraction": report.clip_fraction,
        "policy/truncated_fraction": report.truncated_fraction,
    }


def group_metrics(groups: Sequence[GradedGroup], pool_workers: int) -> dict[str, float]:
    """How long generation and verification took inside the actors."""
    verifying = sum(verdict.seconds for group in groups for verdict in group.verdicts)
    return {
        "time/generate": max(group.summary.seconds for group in groups),
        "time/verify": verifying / pool_workers,
    }


def allocation_metrics(
    rounds: Sequence[TimedAllocation], observed: Observation
) -> dict[str, float]:
    """How many rollouts prompts got, and how well their success was predicted.

    A step has one round, or several under dynamic sampling, which goes without predictions. The
    predictions were made before the step's outcomes were known, whatever the lag.
    """
    counts = np.concatenate([timed.allocation.counts for timed in rounds])
    made = rounds[0].allocation
    metrics = {
        "time/allocate": sum(timed.seconds for timed in rounds),
        "allocation/min": float(counts.min()),
        "allocation/max": float(counts.max()),
        **{f"allocation/prompts@{n}": float(k) for n, k in Counter(counts.tolist()).items()},
    }
    if np.isnan(made.predicted).any():
        return metrics
    outcomes = observed.successes, observed.counts
    judged = {
        "allocation/fallback": float(bool(made.fallback)),
        "allocation/predicted_mean": float(made.predicted.mean()),
        "allocation/observed_mean": observed.success_rate,
        "allocation/brier": brier(made.predicted, *outcomes),
        "allocation/brier_moving_average": brier(made.baseline, *outcomes),
        "acr/effective": made.expected_collapse,
    }
    # A step without any verdict judges no prediction.
    return metrics | {name: value for name, value in judged.items() if np.isfinite(value)}


def buffer_metrics(state: BufferState) -> dict[str, float]:
    return {
        "buffer/waiting": state.waiting,
        "replay/size": state.stored,
        "replay/bytes": state.stored_bytes,
    }


def with_overhead(record: Mapping[str, float]) -> dict[str, float]:
    """Add what is left of the step once the work inside the actors is taken off."""
    work = ("generate", "verify", "learn", "sync")
    inside = sum(record.get(f"time/{phase}", 0.0) for phase in work)
    return {**record, "time/overhead": max(0.0, record["time/step"] - inside)}


def _estimates_before(run: RunFolder) -> dict[str, Estimate]:
    """What the suites measured before training, from the events of a run that goes on."""
    if not run.events.exists():
        return {}
    events = (e for e in read_json_lines(run.events) if e["kind"] == "evaluated")
    return {e["suite"]: Estimate(e["value"], e["low"], e["high"]) for e in events if e["step"] == 0}


class Recorder:
    """Writes metrics.jsonl and events.jsonl, and keeps the screen current."""

    def __init__(self, run: RunFolder, config: ExperimentConfig, view: LiveView) -> None:
        self.run = run
        self._config = config
        self._view = view
        self._metrics = MetricsLog(run, config.telemetry.tensorboard)
        self._events = EventsLog(run)
        self._before = _estimates_before(run)
        self._after: dict[str, Estimate] = {}

    def message(self, text: str) -> None:
        """Say something on the screen."""
        self._view.message(text)

    def event(self, kind: str, **fields: Any) -> None:
        """Add a line to events.jsonl."""
        self._events.write(kind, **fields)

    def skipped(self, step: int, refusals: Sequence[str]) -> None:
        """Say that optimizer steps were not taken, and where their rows are."""
        for refusal in refusals:
            self.message(f"step {step}: an update was skipped: {refusal}")
            self.event("update_skipped", step=step, reason=refusal)

    def quarantined(self, prompt: Prompt, reason: str) -> None:
        """Name a prompt that is given up, on the screen and in events.jsonl."""
        where = prompt.origin or f"prompt {prompt.index} of {prompt.source}"
        self.message(f"quarantined {where}: {reason}; another prompt takes its place")
        self.event("quarantined", prompt=prompt.index, source=prompt.source, reason=reason)

    def evaluated(self, step: int, results: Sequence[SuiteResult]) -> dict[str, float]:
        """Remember a suite's estimates for the closing words; returns their metrics."""
        estimates = {result.label: result.avg for result in results}
        if step == 0:
            self._before = estimates
        self._after = estimates
        for result in results:
            self.event(
                "evaluated",
                step=step,
                suite=result.label,
                value=result.avg.value,
                low=result.avg.low,
                high=result.avg.high,
            )
        return {name: value for result in results for name, value in result.metrics.items()}

    def step(self, record: Mapping[str, float]) -> None:
        """Write a step's line and show it."""
        self._metrics.write(record)
        self._view.update(record)

    def seal(self) -> None:
        """Make everything written so far survive a crash; call before a checkpoint is sealed."""
        self._metrics.sync()

    def finish(self, step: int) -> None:
        """Close the screen with what the run achieved."""
        self._view.finish(
            RunSummary(self.run.path, step, self._config.steps, self._before, self._after)
        )

    def close(self) -> None:
        self._metrics.close()
        self._events.close()
