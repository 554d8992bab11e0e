"""A real pre-trained language model, with its chat template, for two steps on CPU."""

from pathlib import Path

import pytest

from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.rollouts import read_rollouts
from tests.e2e.conftest import train


@pytest.mark.slow
def test_smollm2_trains_and_every_sync_is_proven(tmp_path: Path) -> None:
    run = train(
        tmp_path / "run",
        [
            "steps=2",
            "rollout.prompts_per_step=4",
            "rollout.rollouts_per_prompt=4",
            "rollout.max_new_tokens=48",
            "rollout.engine.threads=2",
            "learner.threads=2",
        ],
        config="configs/dev/smollm2.yaml",
    )
    assert run.code == 0, run.output
    assert [record["step"] for record in run.metrics] == [0, 1, 2]
    rows = read_rollouts(RunFolder(run.folder).rollouts(1)).to_pylist()
    assert len(rows) == 16
    assert all("<|im_start|>assistant" in row["prompt"] for row in rows)
    assert any(row["completion"].strip() for row in rows)
    assert run.updates, "neither step had a group with right and wrong answers"
    assert all(u["sync/probe_max_abs_diff"] < 1e-3 for u in run.updates)
    assert all(u["policy/kl_behaviour"] < 1e-4 for u in run.updates)
