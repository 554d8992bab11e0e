"""Runs of the real command line: real Ray, vLLM and DeepSpeed in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.models.resolve import resolve_model

ROOT = Path(__file__).parents[2]
DEADLINE_S = 560
MARK = "RLVR_TEST_RUN"

SMALL = (
    "rollout.prompts_per_step=8",
    "checkpoint.every_steps=null",
    "evaluation.suites=[]",
    "rollout.engine.threads=1",
    "learner.threads=1",
)
"""Overrides that make a run short; the model is the real warm-started one."""


@dataclass(frozen=True)
class Run:
    """A finished command and the run's folder."""

    code: int
    output: str
    folder: Path

    @property
    def metrics(self) -> list[dict[str, float]]:
        return [json.loads(line) for line in (self.folder / "metrics.jsonl").open()]

    @property
    def updates(self) -> list[dict[str, float]]:
        return [record for record in self.metrics if "loss/policy" in record]

    def events(self, kind: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in (self.folder / "events.jsonl").open()]
        return [line for line in lines if line["kind"] == kind]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rlvr_platform", *arguments]


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of the run in `folder`; every process of the run inherits its mark."""
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    return {**kept, MARK: str(folder)}


def processes_of(folder: Path) -> list[str]:
    """Short names and command lines of the living processes of the run in `folder`."""
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(f"{(process / 'comm').read_text().strip()}: {words.strip()}")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def train(
    folder: Path,
    overrides: Sequence[str] = (),
    config: str = "configs/dev/arithmetic.yaml",
    options: Sequence[str] = (),
    timeout: float = DEADLINE_S,
) -> Run:
    """`rlvr train`, to its end."""
    arguments = ["train", config, *SMALL, *overrides, "--run-dir", str(folder), *options]
    done = subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env=environment_of(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return Run(done.returncode, done.stdout, folder)


def wait_for_step(metrics: Path, step: int, process: subprocess.Popen[str]) -> None:
    """Return once the line of `step` is written; fails when the process ends before."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]  # it ended too early
        if metrics.exists() and f'"step": {step},' in metrics.read_text():
            return
        time.sleep(0.2)
    process.kill()
    raise AssertionError(f"step {step} was not reached: {process.communicate()[0]}")


@pytest.fixture(scope="session", autouse=True)
def built_model() -> None:
    """Build the arithmetic model, minutes on a fresh machine, outside any run's deadline."""
    resolve_model(ArithmeticModel())


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One short run to its end, on one learner rank and one rollout worker."""
    return train(
        tmp_path_factory.mktemp("finished") / "run", ["steps=4", "checkpoint.every_steps=2"]
    )
