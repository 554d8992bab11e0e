"""Where metrics and events go. metrics.jsonl is the truth; TensorBoard is a view of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from rlvr_platform.errors import InputError
from rlvr_platform.files import JsonLines, disk_errors, read_json_lines
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.secrets import masked
from rlvr_platform.telemetry import names
from rlvr_platform.telemetry.manifest import utc_now


class _Sink(Protocol):
    def write(self, record: Mapping[str, float]) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class MetricsLog:
    """One line a step into metrics.jsonl, and into tensorboard/ when asked for."""

    def __init__(self, folder: RunFolder, tensorboard: bool) -> None:
        self._sinks: list[_Sink] = [JsonLines(folder.metrics)]
        written = read_json_lines(folder.metrics)
        self._step = int(written[-1]["step"]) if written else -1
        if tensorboard:
            self._sinks.append(TensorBoard(folder.tensorboard, first_step=self._step + 1))

    def write(self, record: Mapping[str, float]) -> None:
        """Raises ValueError for an unknown name or a step that goes backwards,
        NumericalError for a value that is not finite."""
        names.check(record)
        if record["step"] < self._step:
            raise ValueError(f"step {record['step']} after step {self._step}")
        self._step = int(record["step"])
        for sink in self._sinks:
            sink.write(record)

    def sync(self) -> None:
        """Make what was written survive the machine; call before a checkpoint is sealed."""
        for sink in self._sinks:
            sink.sync()

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()


class EventsLog:
    """events.jsonl: restarts, timeouts, quarantines, syncs, saves; a line each."""

    def __init__(self, folder: RunFolder) -> None:
        self._lines = JsonLines(folder.events)

    def write(self, kind: str, **fields: Any) -> None:
        """Text is masked: what a failing library says may hold a token."""
        safe = {k: masked(v) if isinstance(v, str) else v for k, v in fields.items()}
        self._lines.write({"time": utc_now(), "kind": kind, **safe})

    def close(self) -> None:
        self._lines.close()


class TensorBoard:
    """Scalars in TensorBoard's event format, one file per start of the run.

    `first_step`: points from there on that an earlier start wrote are hidden by TensorBoard.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError as error:
            raise InputError(
                f"telemetry.tensorboard is on but its package does not import: {error}",
                fix="pip install tensorboard, or set telemetry.tensorboard=false",
            ) from error
        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        with disk_errors(folder):
            folder.mkdir(exist_ok=True)
        self._file = FileIO(folder / f"events.out.tfevents.{time.time_ns()}", "x")
        self._writer = RecordWriter(self._file)
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._append(file_version="brain.Event:2")
        self._append(session_log=start, step=first_step)

    def write(self, record: Mapping[str, float]) -> None:
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in record.items()
            if name != "step"
        ]
        self._append(summary=self._summary(value=values), step=int(record["step"]))

    def sync(self) -> None:
        """Nothing to do: TensorBoard can be made again from metrics.jsonl."""

    def close(self) -> None:
        self._file.close()

    def _append(self, **fields: Any) -> None:
        event = self._event(wall_time=time.time(), **fields)
        self._writer.write(event.SerializeToString())
