"""A run that was stopped and resumed is the run that never was."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, SMALL, Run, command, environment_of, train, wait_for_step
from tests.e2e.exactness import unequal

CONFIG = "configs/dev/deterministic.yaml"
OVERRIDES = ("steps=7", "replay.reuse.start_step=2", "checkpoint.every_steps=1")


def killed(folder: Path) -> None:
    """Start the run and kill -9 its controller once it has finished step 3."""
    arguments = ["train", CONFIG, *SMALL, *OVERRIDES, "--run-dir", str(folder)]
    process = subprocess.Popen(
        command(*arguments),
        cwd=ROOT,
        env=environment_of(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for_step(folder / "metrics.jsonl", 3, process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=120)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = train(tmp_path_factory.mktemp("whole") / "run", OVERRIDES, config=CONFIG)
    assert run.code == 0, run.output
    return run


def test_all_four_methods_act_in_one_run(uninterrupted: Run) -> None:
    last = uninterrupted.metrics[-1]
    assert last["allocation/max"] > last["allocation/min"]
    assert last["rollouts/down_sampled"] > 0
    assert last["rollouts/replayed"] > 0
    assert any(record.get("rollouts/rescued", 0) > 0 for record in uninterrupted.metrics)
    assert all(record.get("replay/age_max", 0) <= 10 for record in uninterrupted.metrics)
    for record in uninterrupted.metrics[1:]:
        ends = ("trained", "rescued", "down_sampled", "dropped", "pooled", "invalid")
        assert sum(record[f"rollouts/{end}"] for end in ends) == record["rollouts/generated"]


def test_a_run_that_was_killed_and_resumed_equals_the_uninterrupted_one_bit_for_bit(
    uninterrupted: Run, tmp_path: Path
) -> None:
    """Weights, optimizer, buffer, predictor, and every metric but times, with VIP, PODS, AVSPO
    and replay on.
    """
    killed(tmp_path / "run")
    run = train(tmp_path / "run", OVERRIDES, config=CONFIG, options=["--resume"])
    assert run.code == 0, run.output
    (resumed,) = run.events("resumed")
    assert 2 <= resumed["step"] < 7
    assert unequal(run, uninterrupted) == []
