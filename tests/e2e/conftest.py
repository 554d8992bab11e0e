"""Runs of the real command line: real Ray, vLLM and DeepSpeed in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 560

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


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}


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
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return Run(done.returncode, done.stdout, folder)


def stray_processes() -> list[str]:
    """Command lines of this run's engines, workers and servers that still live."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    marks = ("VLLM::EngineCore", "ray::", "raylet", "gcs_server", "forkserver")
    return [line for line in listed.stdout.splitlines() if line.startswith(marks)]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One short run to its end, on one learner rank and one rollout worker."""
    return train(
        tmp_path_factory.mktemp("finished") / "run", ["steps=4", "checkpoint.every_steps=2"]
    )
