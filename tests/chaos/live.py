"""A run that is watched from outside while it goes: its files, its processes, its leftovers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from tests.e2e.conftest import ROOT, Run, command, environment_of, processes_of

CONFIG = "configs/dev/chaos.yaml"
START_DEADLINE_S = 240.0
END_DEADLINE_S = 300.0
"""For everything that a run does after its fault; a run past it hangs."""
LEFTOVER_S = 45.0
"""In which processes that were told to end must be gone."""
SHARED_MEMORY = Path("/dev/shm")
_POLL_S = 0.01


class HarnessError(Exception):
    """The run did not come to the point at which the fault was due."""


@dataclass(frozen=True)
class Live:
    """A started `rlvr train`."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    """What it prints; outside its folder, whose disk may be full."""
    shared_before: frozenset[str]
    """Names in shared memory before it started."""

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in _lines(self.folder / "events.jsonl") if event["kind"] == kind]

    def metrics(self) -> list[dict[str, Any]]:
        return _lines(self.folder / "metrics.jsonl")

    def wait(self, reached: Callable[[], bool], what: str, limit_s: float) -> None:
        """Return once `reached`. Raises HarnessError when the run ends or the limit passes."""
        end = time.monotonic() + limit_s
        while not reached():
            if self.process.poll() is not None:
                raise HarnessError(f"the run ended before {what}: {self.output[-2000:]}")
            if time.monotonic() > end:
                raise HarnessError(f"{what} did not come within {limit_s:g} s")
            time.sleep(_POLL_S)

    def wait_for_step(self, step: int, fraction: float = 0.0) -> None:
        """Return once `step` is written and about `fraction` of the next one has gone by."""
        reached = lambda: any(record["step"] == step for record in self.metrics())  # noqa: E731
        self.wait(reached, f"step {step}", START_DEADLINE_S)
        time.sleep(fraction * self._step_seconds())

    def _step_seconds(self) -> float:
        """From one line to the next: a step without faults, and its checkpoint."""
        steps = [float(record.get("time/step", 0.2)) for record in self.metrics()]
        savings = [float(event["seconds"]) for event in self.events("checkpoint")]
        return min(steps) + min(savings, default=0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill a run that still goes: only the harness's own errors lead here."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self, limit_s: float = END_DEADLINE_S) -> Run:
        """Wait for the end. A run that does not come to one is killed; its code is -9."""
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.__exit__()
        return Run(self.process.returncode, self.output, self.folder)

    def leftovers(self) -> list[str]:
        """What the ended run left on this machine, once it had time to go."""
        end = time.monotonic() + LEFTOVER_S
        while True:
            found = [f"process {name}" for name in processes_of(self.folder)] + self.shared()
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.2)

    def shared(self) -> list[str]:
        """New files in shared memory that no living process maps or holds: those are of others."""
        new = _names_in(SHARED_MEMORY) - self.shared_before
        return [f"{SHARED_MEMORY}/{name}" for name in sorted(new - _in_use())] if new else []


def start(
    folder: Path,
    overrides: Sequence[str] = (),
    config: str = CONFIG,
    options: Sequence[str] = (),
    log: Path | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Live:
    """`rlvr train`, in a session of its own; its output goes to `log`, or beside `folder`."""
    log = log or folder.with_suffix(".log")
    arguments = ["train", config, *overrides, "--run-dir", str(folder), *options]
    before = _names_in(SHARED_MEMORY)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(*arguments),
            cwd=ROOT,
            env={**environment_of(folder), **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Live(process, folder, log, before)


def seconds_of(event: dict[str, Any]) -> float:
    """When an event was written, as `time.time` gives it."""
    return datetime.fromisoformat(event["time"]).timestamp()


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that is being written."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def _names_in(folder: Path) -> frozenset[str]:
    return frozenset(os.listdir(folder))


def _in_use() -> set[str]:
    """Names in shared memory that living processes map."""
    names = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            for line in maps.read_text().splitlines():
                _, found, name = line.partition(f"{SHARED_MEMORY}/")
                if found:
                    names.add(name.split("/")[0])
        except OSError:
            continue
    return names
