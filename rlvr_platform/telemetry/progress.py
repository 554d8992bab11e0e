"""What the screen says of a run, worked out from the records of its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlvr_platform.evaluation.estimators import Estimate
from rlvr_platform.telemetry.methods import method_facts

COLLAPSE_HELP = (
    "ACR: share of groups whose rollouts all got the same reward; they teach nothing. "
    "High in the first 100 steps, it predicts a low final accuracy."
)
PHASES = ("generate", "verify", "learn", "sync")


@dataclass(frozen=True, slots=True)
class Progress:
    """One step, as shown. A share is in 0..1; None where the record does not have it."""

    step: int
    total_steps: int
    reward: float | None
    learning_share: float | None
    """Rollouts that carried gradient, of those generated."""
    collapse: float | None
    """acr/group."""
    tokens_per_second: float | None
    step_seconds: float | None
    phases: Mapping[str, float]
    """Seconds by phase; "other" is what of the step none of them covers."""
    lag: float | None
    remaining_seconds: float | None
    evaluations: Mapping[str, float]
    """Last value of every eval/SUITE/avg@k, by "SUITE avg@k"."""
    methods: Mapping[str, str]
    """What each method that is on did, see `method_facts`."""


class ProgressTracker:
    """Remembers what one record alone does not say: pace and the last evaluation."""

    def __init__(self, total_steps: int) -> None:
        self._total = total_steps
        self._pace = 0.0
        self._evaluations: dict[str, float] = {}

    def update(self, record: Mapping[str, float]) -> Progress:
        seconds = record.get("time/step")
        if seconds is not None:
            # Evaluation and saving also take time, now and then: the average spreads them.
            extra = record.get("time/evaluate", 0.0) + record.get("time/checkpoint", 0.0)
            now = seconds + extra
            self._pace = now if self._pace == 0 else 0.9 * self._pace + 0.1 * now
        self._evaluations |= _accuracies(record)
        step = int(record["step"])
        return Progress(
            step=step,
            total_steps=self._total,
            reward=record.get("reward/mean"),
            learning_share=_learning_share(record),
            collapse=record.get("acr/group"),
            tokens_per_second=_ratio(record, "tokens/generated", "time/step"),
            step_seconds=seconds,
            phases=_phases(record),
            lag=record.get("lag/max"),
            remaining_seconds=self._pace * (self._total - step) if self._pace else None,
            evaluations=dict(self._evaluations),
            methods=method_facts(record),
        )


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run ends with. `before` and `after`: accuracy by "SUITE avg@k"."""

    folder: Path
    step: int
    total_steps: int
    before: Mapping[str, Estimate]
    after: Mapping[str, Estimate]


def plain_line(progress: Progress) -> str:
    """One readable line about a step."""
    parts = [f"step {progress.step}/{progress.total_steps}"]
    if progress.reward is not None:
        parts.append(f"reward {progress.reward:.3f}")
    if progress.learning_share is not None:
        parts.append(learning_text(progress.learning_share))
    if progress.collapse is not None:
        parts.append(f"ACR {progress.collapse:.2f}")
    if progress.tokens_per_second is not None:
        parts.append(f"{progress.tokens_per_second:,.0f} tokens/s")
    if progress.phases:
        times = " ".join(f"{name} {seconds:.2f}" for name, seconds in progress.phases.items())
        parts.append(f"seconds: {times}")
    if progress.lag is not None:
        parts.append(f"lag {progress.lag:.0f}")
    parts += [f"{method}: {text}" for method, text in progress.methods.items()]
    parts += [f"{name} {percent(value)}" for name, value in progress.evaluations.items()]
    if progress.remaining_seconds is not None:
        parts.append(f"{duration(progress.remaining_seconds)} left")
    return " | ".join(parts)


def summary_lines(summary: RunSummary) -> list[str]:
    """The closing words: what was gained, where it is, how to look further."""
    done = summary.step >= summary.total_steps
    state = "finished" if done else "stopped; `--resume` goes on from here"
    folder = summary.folder
    return [
        f"step {summary.step} of {summary.total_steps}: {state}",
        *(_gain(name, summary) for name in dict.fromkeys([*summary.before, *summary.after])),
        f"run folder:   {folder}",
        f"all metrics:  {folder / 'metrics.jsonl'} (names: docs/metrics.md)",
        f"report:       {folder / 'report.html'}",
        *_tensorboard_line(folder),
    ]


def learning_text(share: float) -> str:
    return f"learning from {share * 100:.0f} % of rollouts"


def percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def duration(seconds: float) -> str:
    """As 45 s, 12 min 30 s, or 3 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def _tensorboard_line(folder: Path) -> list[str]:
    board = folder / "tensorboard"
    return [f"look further: tensorboard --logdir {board}"] if board.is_dir() else []


def _gain(name: str, summary: RunSummary) -> str:
    before, after = summary.before.get(name), summary.after.get(name)
    if before is None or after is None:
        known, when = (before, "before") if after is None else (after, "after")
        return f"{name}: {_with_interval(known)} {when} training" if known else name
    points = (after.value - before.value) * 100
    return f"{name}: {_with_interval(before)} -> {_with_interval(after)}, {points:+.1f} points"


def _with_interval(estimate: Estimate) -> str:
    low, high = estimate.low * 100, estimate.high * 100
    return f"{percent(estimate.value)} (95 % interval {low:.1f} to {high:.1f})"


def _ratio(record: Mapping[str, float], over: str, under: str) -> float | None:
    if over not in record or not record.get(under):
        return None
    return record[over] / record[under]


def _learning_share(record: Mapping[str, float]) -> float | None:
    rescued = record.get("rollouts/rescued", 0.0)
    trained = {"trained": record.get("rollouts/trained", 0.0) + rescued}
    return _ratio({**record, **trained}, "trained", "rollouts/generated")


def _phases(record: Mapping[str, float]) -> dict[str, float]:
    known = {p: record[f"time/{p}"] for p in PHASES if f"time/{p}" in record}
    if "time/step" in record:
        # Overlapping phases can add up to more than the step.
        known["other"] = max(0.0, record["time/step"] - sum(known.values()))
    return known


def _accuracies(record: Mapping[str, float]) -> dict[str, float]:
    found = {}
    for name, value in record.items():
        if name.startswith("eval/") and "/avg@" in name:
            found[name.removeprefix("eval/").replace("/", " ")] = value
    return found
