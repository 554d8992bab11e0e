"""`ray job submit` against a head with token authentication and the dashboard on loopback."""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, SMALL, Run
from tests.e2e.head import RAY, Head, running_head


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    with running_head(tmp_path_factory.mktemp("cluster") / "head") as running:
        yield running


def submit(environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    job = [sys.executable, "-m", "rlvr_platform", "train", "configs/dev/arithmetic.yaml", *SMALL]
    job += ["steps=2", "--run-dir", str(folder)]
    deadline = time.monotonic() + 120
    while True:
        done = subprocess.run(
            [RAY, "job", "submit", "--working-dir", str(ROOT), "--", *job],
            env=environment,
            cwd=folder.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
        )
        # A head takes jobs some seconds after its port is open.
        if "No available agent" not in done.stdout or time.monotonic() > deadline:
            return done
        time.sleep(2)


def test_a_submitted_job_joins_the_cluster_trains_and_gives_its_room_back(
    head: Head, tmp_path: Path
) -> None:
    done = submit(head.environment, tmp_path / "run")
    run = Run(done.returncode, done.stdout, tmp_path / "run")
    assert run.code == 0, run.output
    assert "joined the Ray cluster" in run.output
    assert [record["step"] for record in run.metrics] == [0, 1, 2]
    assert all(u["sync/probe_max_abs_diff"] < 1e-3 for u in run.updates)
    assert head.held() == []


def test_without_the_token_nothing_can_be_submitted(head: Head, tmp_path: Path) -> None:
    stranger = tmp_path / "token"
    stranger.write_text(secrets.token_hex(32))
    done = submit({**head.environment, "RAY_AUTH_TOKEN_PATH": str(stranger)}, tmp_path / "run")
    assert done.returncode != 0
    assert not (tmp_path / "run").exists()
