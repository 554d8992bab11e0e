from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.rollouts import read_rollouts
from tests.e2e.conftest import (
    ROOT,
    SMALL,
    Run,
    command,
    environment_of,
    processes_of,
    train,
    wait_for_step,
)

PROBE_LIMIT = 1e-3
"""Nats, in float32."""


def assert_trained(run: Run, steps: int) -> None:
    assert run.code == 0, run.output
    assert [record["step"] for record in run.metrics] == list(range(steps + 1))
    assert len(run.updates) == run.metrics[-1]["version"] >= steps - 1
    assert all(u["sync/probe_max_abs_diff"] < PROBE_LIMIT for u in run.updates)
    assert all(u["policy/kl_behaviour"] < 1e-4 for u in run.updates if u["lag/max"] == 0)


def test_a_run_trains_and_its_folder_has_everything(finished: Run) -> None:
    assert_trained(finished, steps=4)
    names = {path.name for path in finished.folder.iterdir()}
    assert names >= {
        "config.yaml",
        "manifest.json",
        "metrics.jsonl",
        "events.jsonl",
        "rollouts",
        "checkpoints",
        "tensorboard",
        "report.html",
    }
    assert "finished: step 4 of 4" in (finished.folder / "report.html").read_text()
    assert yaml.safe_load((finished.folder / "config.yaml").read_text())["steps"] == 4
    assert RunFolder(finished.folder).latest_checkpoint().found.step == 4
    assert {c.name for c in (finished.folder / "checkpoints").iterdir()} == {
        "step-000002",
        "step-000004",
    }
    parts = {path.name for path in (finished.folder / "checkpoints/step-000004").iterdir()}
    assert parts == {"model", "optimizer", "buffer", "allocator", "state.json", "checksums.json"}
    assert (finished.folder / "checkpoints/step-000004/model/model.safetensors").exists()
    assert (finished.folder / "checkpoints/step-000004/optimizer/rng-0.pt").exists()


def test_every_rollout_is_recorded_with_verdict_and_fate(finished: Run) -> None:
    for record in finished.metrics[1:]:
        table = read_rollouts(RunFolder(finished.folder).rollouts(int(record["step"])))
        rows = table.to_pylist()
        assert len(rows) == record["rollouts/generated"]
        fates = [row["fate"] for row in rows]
        assert fates.count("TRAINED") == record["rollouts/trained"]
        assert sum(r["verdict"] == "correct" for r in rows) == record["verdict/correct"]
        assert np.mean([r["reward"] for r in rows]) == pytest.approx(record["reward/mean"])


def test_memory_of_every_role_is_reported_and_fits_8_gib(finished: Run) -> None:
    (memory,) = finished.events("memory")
    peaks = {role: size for role, size in memory.items() if role not in ("kind", "time")}
    assert set(peaks) == {
        *("controller", "learner", "rollout_worker", "engine"),
        *("verifier_pool", "replay_buffer", "allocator"),
    }
    assert sum(peaks.values()) < 8 * 2**30


def test_an_exported_model_scores_as_the_checkpoint_does(finished: Run, tmp_path: Path) -> None:
    out = tmp_path / "model"
    done = subprocess.run(
        command("export", str(finished.folder), str(out)), cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    exported = AutoModelForCausalLM.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    saved = finished.folder / "checkpoints/step-000004/model"
    trained = AutoModelForCausalLM.from_pretrained(saved)
    ids = torch.tensor([tokenizer.encode("17+25=42")])
    with torch.no_grad():
        torch.testing.assert_close(exported(ids).logits, trained(ids).logits)
    again = subprocess.run(
        command("export", str(finished.folder), str(out)), cwd=ROOT, capture_output=True, text=True
    )
    assert again.returncode == 2
    assert "Traceback" not in again.stderr


def test_an_exported_model_trains_on_in_vllm_and_deepspeed(finished: Run, tmp_path: Path) -> None:
    """Two workers, two ranks, ZeRO-2, one step of lag; the first sync proves equal log-probs."""
    saved = finished.folder / "checkpoints/step-000004/model"
    run = train(
        tmp_path / "run",
        [
            f"model={{kind: pretrained, path: {saved}}}",
            "steps=4",
            "rollout.workers=2",
            "rollout.max_lag=1",
            "learner.ranks=2",
            "learner.zero_stage=2",
            "learner.minibatches=2",
        ],
    )
    assert_trained(run, steps=4)
    assert max(record.get("lag/max", 0) for record in run.metrics) <= 1


def test_zero_3_on_two_ranks_with_packed_rows_and_a_kl_penalty(tmp_path: Path) -> None:
    run = train(
        tmp_path / "run",
        [
            "steps=3",
            "learner.ranks=2",
            "learner.zero_stage=3",
            "learner.layout=packed",
            "learner.tokens_per_micro_batch=256",
            "learner.gradient_checkpointing=true",
            "algorithm.kl={estimator: k3, coefficient: 0.01}",
            "algorithm.advantage=rloo",
        ],
    )
    assert_trained(run, steps=3)
    assert run.updates[0]["policy/kl_reference"] == pytest.approx(0, abs=1e-6)
    assert run.updates[-1]["policy/kl_reference"] > 0


def test_sigint_writes_a_checkpoint_and_resume_finishes_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    arguments = ["train", "configs/dev/arithmetic.yaml", *SMALL, "steps=40"]
    process = subprocess.Popen(
        command(*arguments, "--run-dir", str(folder)),
        cwd=ROOT,
        env=environment_of(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for_step(folder / "metrics.jsonl", 3, process)
    # As Ctrl-C does: to the whole foreground process group.
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert processes_of(folder) == []
    reached = RunFolder(folder).latest_checkpoint().found.step
    assert 3 <= reached < 40

    other = train(folder, ["steps=40", "seed=5"], options=["--resume"])
    assert other.code == 2
    assert "seed: 0 -> 5" in other.output

    run = train(folder, ["steps=40"], options=["--resume"])
    assert_trained(run, steps=40)
    assert [event["step"] for event in run.events("resumed")] == [reached]
    steps = [update["optimizer_steps"] for update in run.updates]
    assert steps == list(range(1, len(steps) + 1))

    again = train(folder, ["steps=40"], options=["--resume"])
    assert again.code == 2
    assert "is finished: step 40 of 40" in again.output
    assert len(run.metrics) == 41
