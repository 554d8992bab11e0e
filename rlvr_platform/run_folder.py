"""A run's folder: what is where, how it starts, and how it goes on after a stop.

    config.yaml      the resolved configuration; a folder without it holds no run
    manifest.json    versions, commit, seeds, hardware, and every resume
    metrics.jsonl    a line a step          events.jsonl   what happened besides
    rollouts/        step-NNNNNN.parquet    checkpoints/   step-NNNNNN/
    offending/       rows of updates that were not finite, see guards.py
    tensorboard/     the metrics again, for TensorBoard

The folder is complete and readable after a kill at any moment. It is created private to
the user, since rollouts hold the prompts; a folder that exists keeps its permissions.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_platform.config import ExperimentConfig, dump_config, load_config
from rlvr_platform.config.checkpoint import CheckpointConfig
from rlvr_platform.config_diff import differences, refused
from rlvr_platform.errors import ClusterError, InputError
from rlvr_platform.files import (
    JsonLines,
    atomic_folder,
    check_space,
    disk_errors,
    free_space,
    full_disk,
    in_words,
    read_json_lines,
    remove_folder,
    remove_partials,
    verify_checksums,
    write_atomic,
)
from rlvr_platform.retention import (
    MARGIN,
    first_checkpoint_bytes,
    folder_bytes,
    kept_steps,
    metric_by_step,
)
from rlvr_platform.telemetry.manifest import manifest

MIN_FREE_BYTES = 1 << 30
_STEP = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose checksums hold."""

    step: int
    path: Path


@dataclass(frozen=True, slots=True)
class CheckpointSearch:
    """The intact checkpoints to resume from, and what was passed over."""

    found: Checkpoint | None
    """The newest intact one; None when the run stopped before its first."""
    damaged: tuple[str, ...]
    """One reason for each newer checkpoint that is damaged."""


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a run did after the checkpoint it resumes from; set aside, never deleted."""

    metric_lines: int
    rollout_files: int
    checkpoints: int


@dataclass(frozen=True, slots=True)
class Retained:
    """What a look at the checkpoints came to."""

    removed: tuple[Path, ...]
    measured: bool
    """False when the newest has no value of checkpoint.best_metric and can't be a best one."""


class RunFolder:
    """One run's folder. `create` and `resume` hold its lock until `close` or process exit."""

    def __init__(self, path: Path) -> None:
        """Open for reading only."""
        self.path = path.expanduser().resolve()
        self._lock = -1

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def offending(self) -> Path:
        return self.path / "offending"

    def rollouts(self, step: int) -> Path:
        return self.path / "rollouts" / f"step-{step:06d}.parquet"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:06d}"

    @classmethod
    def create(
        cls,
        path: Path,
        config: ExperimentConfig,
        gpus: Sequence[str] = (),
        min_free_bytes: int = MIN_FREE_BYTES,
    ) -> RunFolder:
        """Start a run in a new or empty folder.

        Raises InputError when the folder holds anything, cannot be written, or its disk has
        fewer than `min_free_bytes` free.
        """
        folder = cls(path)
        folder._refuse_content()
        check_space(folder.path, min_free_bytes)
        with disk_errors(folder.path):
            folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder._acquire()
        folder._make_rooms()
        write_atomic(folder.manifest, _json(manifest(config, gpus) | {"resumes": []}))
        write_atomic(folder.config, dump_config(config))
        return folder

    @classmethod
    def resume(
        cls,
        path: Path,
        config: ExperimentConfig,
        gpus: Sequence[str] = (),
        min_free_bytes: int = MIN_FREE_BYTES,
    ) -> RunFolder:
        """Go on with the run in `path`; what may differ in `config` is in config_diff.py.

        Raises InputError when there is no run, another process is writing it, or `config`
        is that of another run.
        """
        folder = cls(path)
        if not folder.config.is_file():
            raise InputError(
                f"{folder.path} holds no run (no config.yaml)",
                "the folder of a run that was started",
                "leave out --resume to start one, or name its folder with --run-dir",
            )
        before = load_config(folder.config)
        folder._refuse_other(before, config)
        check_space(folder.path, min_free_bytes)
        folder._acquire()
        folder._make_rooms()
        for place in (folder.path, *folder._rooms()):
            remove_partials(place)
        folder._record_resume(before, config, gpus)
        return folder

    def latest_checkpoint(self) -> CheckpointSearch:
        """The newest checkpoint whose checksums hold.

        Raises InputError when there are checkpoints and all are damaged.
        """
        damaged: list[str] = []
        for step, path in reversed(_steps(self.checkpoints.iterdir())):
            try:
                verify_checksums(path)
            except InputError as error:
                damaged.append(error.got)
                continue
            return CheckpointSearch(Checkpoint(step, path), tuple(damaged))
        if damaged:
            raise InputError(
                "every checkpoint is damaged: " + "; ".join(damaged),
                "one whose checksums hold",
                f"remove {self.checkpoints}/step-* to start this run again from step 0",
            )
        return CheckpointSearch(None, ())

    def rewind(self, step: int) -> Rewound:
        """Set aside everything later than `step`, so that steps never go backwards.

        Later lines of metrics.jsonl move to metrics.superseded.jsonl; later rollout files
        and (damaged) checkpoints get the suffix .superseded-N. Call before MetricsLog opens.
        """
        later_rollouts = [p for s, p in _steps((self.path / "rollouts").iterdir()) if s > step]
        later_checkpoints = [p for s, p in _steps(self.checkpoints.iterdir()) if s > step]
        with disk_errors(self.path):
            for path in (*later_rollouts, *later_checkpoints):
                path.rename(_free_name(path))
        lines = self._cut_metrics(step)
        return Rewound(lines, len(later_rollouts), len(later_checkpoints))

    @contextmanager
    def new_checkpoint(self, step: int) -> Iterator[Path]:
        """A folder to write the checkpoint of `step` into; whole under its name afterwards.

        Raises ClusterError when the disk has no room for it, before anything is written, or
        becomes full meanwhile. The checkpoints before it stay in either case.
        """
        path, need = self.checkpoint(step), self._checkpoint_bytes()
        free, _ = free_space(path)
        if free < need:
            raise ClusterError(
                f"no room for {path}: {in_words(free)} free",
                f"about {in_words(need)}",
                "free some space and go on with --resume; older checkpoints are untouched, and "
                "checkpoint.keep_last and keep_best say how many there are",
            )
        with atomic_folder(path) as folder, full_disk(path, need):
            yield folder

    def retain_checkpoints(self, config: CheckpointConfig) -> Retained:
        """Remove the checkpoints that are neither among the newest nor among the best."""
        checkpoints = dict(_steps(self.checkpoints.iterdir()))
        values: dict[int, float] = {}
        if config.keep_best:
            values = metric_by_step(read_json_lines(self.metrics), config.best_metric)
        kept = kept_steps(list(checkpoints), values, config)
        removed = [path for step, path in checkpoints.items() if step not in kept]
        for path in removed:
            remove_folder(path)
        newest = max(checkpoints, default=0)
        return Retained(tuple(removed), measured=not config.keep_best or newest in values)

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _checkpoint_bytes(self) -> float:
        """Estimate of the next checkpoint's size; 0 before the first update."""
        if before := _steps(self.checkpoints.iterdir()):
            return MARGIN * folder_bytes(before[-1][1])
        records = read_json_lines(self.metrics) if self.metrics.exists() else []
        published = metric_by_step(records, "sync/bytes").values()
        return MARGIN * first_checkpoint_bytes(max(published, default=0), load_config(self.config))

    def _refuse_content(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError(f"{self.path} is a file", "a folder", "choose another --run-dir")
        # A start that was killed before config.yaml leaves only these behind.
        harmless = {".lock", "manifest.json", "rollouts", "checkpoints"}
        with disk_errors(self.path):
            found = sorted({p.name for p in self.path.iterdir()} - harmless)
        if found:
            raise InputError(
                f"the run folder {self.path} is not empty: it holds {', '.join(found[:5])}",
                "a new or empty folder",
                "add --resume to go on with that run, or choose another --run-dir",
            )

    def _refuse_other(self, before: ExperimentConfig, config: ExperimentConfig) -> None:
        lines = refused(before, config)
        if lines:
            raise InputError(
                f"the run in {self.path} was started with another configuration:\n"
                + "\n".join(f"  - {line}" for line in lines),
                "the same values; only what does not change what the run computes may differ",
                "set these keys back, or start a new run in another --run-dir",
            )

    def _rooms(self) -> tuple[Path, Path]:
        return self.path / "rollouts", self.checkpoints

    def _make_rooms(self) -> None:
        with disk_errors(self.path):
            for room in self._rooms():
                room.mkdir(exist_ok=True)

    def _acquire(self) -> None:
        with disk_errors(self.path):
            self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError(
                f"another process is writing the run in {self.path}",
                "one writer",
                "wait for it or stop it, or choose another --run-dir",
            ) from None
        except OSError as error:
            # Some network file systems have no locks; a run there must still start.
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise

    def _record_resume(
        self, before: ExperimentConfig, config: ExperimentConfig, gpus: Sequence[str]
    ) -> None:
        content = self._read_manifest()
        changed = {d.key: {"from": d.old, "to": d.new} for d in differences(before, config)}
        content["resumes"].append(manifest(config, gpus) | {"changed": changed})
        write_atomic(self.manifest, _json(content))
        write_atomic(self.config, dump_config(config))

    def _read_manifest(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self.manifest.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise InputError(
                f"cannot read {self.manifest}: {error}",
                "the manifest written when the run started",
                "restore it from a copy, or start a new run in another --run-dir",
            ) from None

    def _cut_metrics(self, step: int) -> int:
        if not self.metrics.exists():
            return 0
        records = read_json_lines(self.metrics)
        kept = [r for r in records if r["step"] <= step]
        cut = [r for r in records if r["step"] > step]
        if cut:
            aside = JsonLines(self.metrics.with_suffix(".superseded.jsonl"))
            for record in cut:
                aside.write(record)
            aside.sync()
            aside.close()
            write_atomic(self.metrics, "".join(json.dumps(r) + "\n" for r in kept))
        return len(cut)


def _steps(paths: Iterable[Path]) -> list[tuple[int, Path]]:
    """The paths named step-NNNNNN or step-NNNNNN.parquet, by step."""
    named = [(_STEP.fullmatch(p.name.removesuffix(".parquet")), p) for p in paths]
    return sorted((int(match[1]), path) for match, path in named if match)


def _free_name(path: Path) -> Path:
    number = 1
    while (new := path.with_name(f"{path.name}.superseded-{number}")).exists():
        number += 1
    return new


def _json(content: object) -> str:
    return json.dumps(content, indent=2) + "\n"
