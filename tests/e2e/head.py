"""A Ray cluster of its own, as users have one: a head with a token, on loopback."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.conftest import environment_of, processes_of

RAY = str(Path(sys.executable).parent / "ray")
NOTHING = "No resource in the cluster"
"""What `ray list` prints instead of an empty list."""
TO_END_S = 5.0
"""After that, the head is killed: by itself it takes half a minute."""
OURS = re.compile(r"-m rlvr_platform|EngineCore|ray::\w+Actor")
"""In the command lines of a run's processes."""
RAYS_OWN = "JobSupervisor"
"""The actor that watches a submitted job."""


@dataclass(frozen=True)
class Head:
    """A running head."""

    folder: Path
    """Marks its processes, see `processes_of`."""
    environment: dict[str, str]
    """Of somebody who has its token and submits jobs."""
    driver: dict[str, str]
    """What a driver of its own needs in its environment to join."""

    def listed(self, kind: str) -> list[dict[str, Any]]:
        """What `ray list` says of `kind`, such as "actors" or "placement-groups"."""
        done = subprocess.run(
            [RAY, "list", kind, "--format=json", "--limit=1000"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, Any]] = [] if NOTHING in done.stdout else json.loads(done.stdout)
        return rows

    def held(self) -> list[str]:
        """Processes, placement groups and actors of runs that are still there."""
        processes = [name for name in processes_of(self.folder) if OURS.search(name)]
        groups = [g for g in self.listed("placement-groups") if g["state"] != "REMOVED"]
        actors = [a for a in self.listed("actors") if a["state"] != "DEAD"]
        return [
            *(f"process {name}" for name in processes),
            *(f"placement group {g['placement_group_id']} is {g['state']}" for g in groups),
            *(f"{a['class_name']} is {a['state']}" for a in actors if a["class_name"] != RAYS_OWN),
        ]


@contextmanager
def running_head(folder: Path) -> Iterator[Head]:
    """Start a head, and end it; `folder` is made and holds its token and log."""
    folder.mkdir(mode=0o700)
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    port, dashboard = free_port(), free_port()
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    url = f"http://127.0.0.1:{dashboard}"
    environment = {
        **environment_of(folder),
        **access,
        "RAY_API_SERVER_ADDRESS": url,
        "RAY_ADDRESS": url,
    }
    start = [RAY, "start", "--head", "--block", f"--port={port}", "--num-cpus=8"]
    start += ["--disable-usage-stats", "--dashboard-host=127.0.0.1"]
    # Another Ray on this machine may hold the default port of the agent that takes jobs.
    start += [f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={free_port()}"]
    start += [f"--object-store-memory={512 * 2**20}"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            start, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait_until_open(dashboard, process)
        yield Head(folder, environment, {**access, "RAY_ADDRESS": f"127.0.0.1:{port}"})
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its own process group only: other clusters on this machine are none of our business."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(TO_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


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
