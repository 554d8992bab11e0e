"""The rollouts of a recorded run, to be graded again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlvr_platform.errors import InputError
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.rollouts import read_rollouts
from rlvr_platform.types import Fate, Outcome, Verdict
from rlvr_platform.verifiers.pool import GradeItem

_IDENTITY = ("step", "group_id", "sibling")
_VERDICT = ("verdict", "reward", "extracted", "rule", "verify_seconds")
_COLUMNS = [*_IDENTITY, *_VERDICT, "completion", "gold", "options", "fate"]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRow:
    """A rollout and what the run's verifier found."""

    id: str
    """step/group/sibling."""
    item: GradeItem
    verdict: Verdict


def rollout_files(run: Path, step: int | None) -> list[Path]:
    """The file of a step, or of all steps. Raises InputError when there is none."""
    folder = RunFolder(run)
    if not folder.config.is_file():
        raise InputError(f"{run} holds no run", "a folder with a config.yaml")
    if step is not None:
        files = [folder.rollouts(step)]
    else:
        files = sorted(folder.rollouts(0).parent.glob("step-*.parquet"))
    if not files or not files[0].is_file():
        raise InputError(
            f"{run} has no rollouts" + (f" of step {step}" if step is not None else "")
        )
    return files


def recorded_rows(files: list[Path]) -> Iterator[RecordedRow]:
    """Every rollout once: those drawn again by replay stand in the file of their own step.

    Raises InputError for a file that cannot be read.
    """
    for file in files:
        for row in read_rollouts(file).select(_COLUMNS).to_pylist():
            if row["fate"] != Fate.REPLAYED.name:
                item = GradeItem(row["completion"], row["gold"], json.loads(row["options"]))
                outcome, *rest = (row[column] for column in _VERDICT)
                name = "/".join(str(row[column]) for column in _IDENTITY)
                yield RecordedRow(name, item, Verdict(Outcome(outcome), *rest))
