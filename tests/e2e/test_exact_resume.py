"""A run that was stopped and resumed is the run that never was."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.e2e.conftest import ROOT, SMALL, Run, command, environment_of, train, wait_for_step

CONFIG = "configs/dev/deterministic.yaml"
OVERRIDES = ("steps=7", "replay.reuse.start_step=2", "checkpoint.every_steps=1")


def weights(run: Run) -> str:
    model = run.folder / "checkpoints/step-000007/model/model.safetensors"
    return hashlib.sha256(model.read_bytes()).hexdigest()


def optimizer(run: Run) -> dict[str, torch.Tensor]:
    """AdamW's moments and step counts, by place."""
    (file,) = (run.folder / "checkpoints/step-000007/optimizer").rglob("mp_rank_00_model_states.pt")
    state = torch.load(file, weights_only=False)["optimizer"]["state"]
    return {f"{i}.{name}": value for i, entry in state.items() for name, value in entry.items()}


def methods(run: Run) -> dict[str, np.ndarray]:
    """What the replay buffer and the allocator hold."""
    checkpoint = run.folder / "checkpoints/step-000007"
    arrays = {}
    for file in ("buffer/experience.npz", "buffer/groups.npz", "allocator/predictor.npz"):
        with np.load(checkpoint / file) as saved:
            arrays |= {f"{file} {name}": saved[name] for name in saved}
    return arrays


def without_times(run: Run) -> list[dict[str, float]]:
    return [
        {name: value for name, value in record.items() if not name.startswith("time/")}
        for record in run.metrics
    ]


def stopped(folder: Path, stop: signal.Signals) -> None:
    """Start the run and send it `stop` once it has finished step 3."""
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
    os.kill(process.pid, stop)
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


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGKILL])
def test_a_resumed_run_equals_the_uninterrupted_one_bit_for_bit(
    uninterrupted: Run, tmp_path: Path, stop: signal.Signals
) -> None:
    """Weights, optimizer, buffer, predictor, and every metric but times, with VIP, PODS, AVSPO
    and replay on.
    """
    stopped(tmp_path / "run", stop)
    run = train(tmp_path / "run", OVERRIDES, config=CONFIG, options=["--resume"])
    assert run.code == 0, run.output
    (resumed,) = run.events("resumed")
    assert 2 <= resumed["step"] < 7
    assert weights(run) == weights(uninterrupted)
    assert without_times(run) == without_times(uninterrupted)
    own, other = optimizer(run), optimizer(uninterrupted)
    assert own.keys() == other.keys() and own
    assert all(torch.equal(own[name], other[name]) for name in own)
    held, expected = methods(run), methods(uninterrupted)
    assert held.keys() == expected.keys()
    assert all(np.array_equal(held[name], expected[name]) for name in held)
