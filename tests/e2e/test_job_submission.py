"""`ray job submit` against a head with token authentication and the dashboard on loopback."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, SMALL, Run

RAY = str(Path(sys.executable).parent / "ray")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running head; yields the environment of somebody who has its token."""
    token = tmp_path_factory.mktemp("auth") / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    port, dashboard = free_port(), free_port()
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{dashboard}",
        "RAY_ADDRESS": f"http://127.0.0.1:{dashboard}",
    }
    start = [RAY, "start", "--head", "--block", f"--port={port}", "--num-cpus=8"]
    start += ["--disable-usage-stats", "--dashboard-host=127.0.0.1"]
    # Another Ray on this machine may hold the default port of the agent that takes jobs.
    start += [f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={free_port()}"]
    start += [f"--object-store-memory={512 * 2**20}"]
    log = (tmp_path_factory.mktemp("head") / "log").open("w")
    process = subprocess.Popen(
        start, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    try:
        _wait_until_open(dashboard, process)
        yield environment
    finally:
        # Its own process group only: other clusters on this machine are none of our business.
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


def _wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "ray start ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError("the head's dashboard did not open its port")


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


def test_a_submitted_job_joins_the_cluster_and_trains(head: dict[str, str], tmp_path: Path) -> None:
    done = submit(head, tmp_path / "run")
    run = Run(done.returncode, done.stdout, tmp_path / "run")
    assert run.code == 0, run.output
    assert "joined the Ray cluster" in run.output
    assert [record["step"] for record in run.metrics] == [0, 1, 2]
    assert all(u["sync/probe_max_abs_diff"] < 1e-3 for u in run.updates)


def test_without_the_token_nothing_can_be_submitted(head: dict[str, str], tmp_path: Path) -> None:
    stranger = tmp_path / "token"
    stranger.write_text(secrets.token_hex(32))
    done = submit({**head, "RAY_AUTH_TOKEN_PATH": str(stranger)}, tmp_path / "run")
    assert done.returncode != 0
    assert not (tmp_path / "run").exists()
