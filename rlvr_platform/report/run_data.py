"""A run's folder as the report needs it: read tolerantly, judged by what the files say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.evaluation.estimators import Estimate
from rlvr_platform.files import read_json_lines
from rlvr_platform.report.series import Series, columns
from rlvr_platform.run_folder import RunFolder

FAILURE = "failed"
INTERRUPT = "interrupted"
START = "started"
RESUME = "resumed"
_EVALUATION = {"step", "suite", "value", "low", "high"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One suite's accuracy at one step, with its interval."""

    step: int
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Status:
    """How the run ended, or that it has not."""

    state: Literal["finished", "stopped", "failed"]
    text: str


@dataclass(frozen=True, slots=True)
class RunData:
    """Everything of a run but its rollouts."""

    folder: RunFolder
    config: ExperimentConfig | ConfigError
    """The configuration, or why this version cannot read it."""
    config_text: str
    """config.yaml as it stands."""
    manifest: Mapping[str, Any]
    """Empty when there is none that can be read."""
    records: Sequence[Mapping[str, float]]
    """The lines of metrics.jsonl."""
    series: Mapping[str, Series]
    """The same by metric, finite values only."""
    events: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        if isinstance(self.config, ExperimentConfig):
            return self.config.name
        return self.folder.path.name

    @property
    def last_step(self) -> int:
        """The last step recorded; 0 before the first."""
        return int(self.records[-1]["step"]) if self.records else 0


def read_run(path: Path) -> RunData:
    """Read the run in `path`.

    Raises InputError when there is none, or when a line of its metrics or events is damaged;
    a torn last line is left out.
    """
    folder = RunFolder(path)
    text = _config_text(folder)
    records = _lines(folder.metrics)
    return RunData(
        folder=folder,
        config=_config(folder),
        config_text=text,
        manifest=_manifest(folder),
        records=records,
        series=columns(records),
        events=_lines(folder.events),
    )


def status(run: RunData) -> Status:
    """How the run ended, as metrics.jsonl and events.jsonl say."""
    where, total = f"step {run.last_step}", 0
    if isinstance(run.config, ExperimentConfig):
        total = run.config.steps
        where += f" of {total}"
    end = _end(run.events)
    if end.get("kind") == FAILURE:
        message = str(end.get("error", "no message"))
        return Status("failed", f"stopped by an error at {where}: {message}")
    if total and run.last_step >= total:
        return Status("finished", f"finished: {where}")
    if not run.records:
        return Status("stopped", f"no step recorded: {where}")
    if end:
        return Status("stopped", f"interrupted at {where}; `--resume` goes on from there")
    return Status("stopped", f"at {where}: still running when this was written, or killed")


def evaluations(run: RunData) -> dict[str, list[Evaluation]]:
    """By suite, its evaluations in the order of their steps.

    Those of steps that a resume set aside are left out.
    """
    found: dict[str, dict[int, Evaluation]] = {}
    for event in run.events:
        if _is_evaluation(event) and event["step"] <= run.last_step:
            estimate = Estimate(event["value"], event["low"], event["high"])
            measured = Evaluation(int(event["step"]), estimate)
            found.setdefault(str(event["suite"]), {})[measured.step] = measured
    return {suite: [by_step[s] for s in sorted(by_step)] for suite, by_step in found.items()}


def _is_evaluation(event: Mapping[str, Any]) -> bool:
    return event.get("kind") == "evaluated" and event.keys() >= _EVALUATION


def _end(events: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The event by which the run's last start ended; empty when it has not, or was killed."""
    for event in reversed(events):
        if event.get("kind") == START:
            return {}
        if event.get("kind") in (FAILURE, INTERRUPT):
            return event
    return {}


def _config_text(folder: RunFolder) -> str:
    try:
        return folder.config.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{folder.path} holds no run: cannot read config.yaml: {error.strerror}",
            "the folder of a run that was started",
            "name the folder that holds config.yaml and metrics.jsonl",
        ) from None


def _config(folder: RunFolder) -> ExperimentConfig | ConfigError:
    try:
        return load_config(folder.config)
    except ConfigError as error:
        return error


def _manifest(folder: RunFolder) -> dict[str, Any]:
    try:
        content = json.loads(folder.manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _lines(path: Path) -> list[dict[str, Any]]:
    return read_json_lines(path) if path.exists() else []
