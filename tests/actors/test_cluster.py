"""What a Ray that we start lets in, and what we say about one that we join."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.cluster_access import private_folder, protect_token_file
from rlvr_platform.errors import ClusterError

ROOT = Path(__file__).parents[2]
PROBE = """
import json, os, sys
from pathlib import Path
import ray
from actors.cluster import ray_cluster
from actors.cluster_access import answers_strangers
from rlvr_platform.config import load_config

def listening():
    # Address and port, hexadecimal, of each listening socket of this machine, by inode.
    lines = [l.split() for f in ("tcp", "tcp6") for l in Path("/proc/net", f).open()][1:]
    return {l[9]: l[1] for l in lines if l[3] == "0A"}

def sockets_of_this_ray(mark):
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found += [os.readlink(link) for link in (process / "fd").iterdir()]
        except OSError:
            continue
    return {link.removeprefix("socket:[")[:-1] for link in found}

def auth_environment():
    return {k: v for k, v in os.environ.items() if k.startswith("RAY_AUTH")}

config = load_config(Path(sys.argv[1]), ["cluster.object_store_gib=0.1", *sys.argv[2:]])
before = auth_environment()
with ray_cluster(config, cpus=1) as where:
    seen = ray.get(ray.remote(num_cpus=0)(auth_environment).remote(), timeout=60)
    gcs = ray.get_runtime_context().gcs_address
    addresses = [a for i, a in listening().items() if i in sockets_of_this_ray(os.environ["MARK"])]
    result = {
        "where": where, "gcs": gcs, "worker": seen, "addresses": addresses,
        "strangers": answers_strangers(gcs),
        "logs": ray._private.worker._global_node.get_session_dir_path(),
    }
result["restored"] = auth_environment() == before
print("RESULT", json.dumps(result))
"""
LOOPBACK = re.compile(r"0100007F:.*|0000000000000000FFFF00000100007F:.*|0{24}01000000:.*")


def probe(tmp_path: Path, **environment: str) -> dict:
    """What `ray_cluster` gives in a process of its own, with a home of its own."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(ROOT / "configs/dev/arithmetic.yaml")],
        env={**inherited, "HOME": str(home), "MARK": str(tmp_path), "PYTHONPATH": str(ROOT)}
        | environment,
        capture_output=True,
        text=True,
        timeout=180,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    return {**json.loads(line.removeprefix("RESULT ")), "stderr": done.stderr}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """A local Ray, as `rlvr train` starts it."""
    home = tmp_path_factory.mktemp("local")
    return {**probe(home), "home": home / "home"}


def test_a_local_ray_listens_on_loopback_only(local: dict) -> None:
    assert local["gcs"].startswith("127.0.0.1:")
    assert len(local["addresses"]) >= 4
    assert [a for a in local["addresses"] if not LOOPBACK.fullmatch(a)] == []


def test_a_local_ray_refuses_whoever_has_no_token(local: dict) -> None:
    assert not local["strangers"]
    assert "warning" not in local["where"]
    assert local["worker"]["RAY_AUTH_MODE"] == "token"


def test_the_token_of_a_local_ray_is_random_and_written_nowhere(local: dict) -> None:
    token = local["worker"]["RAY_AUTH_TOKEN"]
    assert len(token) == 64
    assert not (local["home"] / ".ray").exists()
    logs = [path for path in Path(local["logs"]).rglob("*") if path.is_file()]
    assert logs
    assert not [path for path in logs if token.encode() in path.read_bytes()]
    assert token not in local["where"] + local["stderr"]


def test_only_the_user_can_enter_the_folder_of_sockets_and_logs(local: dict) -> None:
    session = Path(local["logs"])
    outer = session.parents[1]
    assert outer.name == f"rlvr-ray-{os.getuid()}"
    assert stat.S_IMODE(outer.stat().st_mode) == 0o700


def test_the_token_leaves_the_environment_once_ray_is_gone(local: dict) -> None:
    assert local["restored"]


def test_authentication_that_the_user_turned_off_stays_off_and_is_said(tmp_path: Path) -> None:
    found = probe(tmp_path, RAY_AUTH_MODE="disabled")
    assert found["strangers"]
    assert "warning: this Ray has no token authentication" in found["where"]
    assert [a for a in found["addresses"] if not LOOPBACK.fullmatch(a)] == []


def test_a_token_of_the_users_choice_is_taken_and_its_file_made_private(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("c" * 64)
    token.chmod(0o644)
    found = probe(tmp_path, RAY_AUTH_TOKEN_PATH=str(token))
    assert "RAY_AUTH_TOKEN" not in found["worker"]
    assert not found["strangers"]
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert f"the Ray token {token} had mode 644" in found["where"]


@pytest.fixture
def open_head(tmp_path: Path) -> Iterator[str]:
    """The address of a head without token authentication."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block"]
    ray += [f"--port={port}", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
    ray += [f"--object-store-memory={128 * 2**20}"]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    with (tmp_path / "log").open("w") as log:
        head = subprocess.Popen(
            ray,
            env={**inherited, "RAY_AUTH_MODE": "disabled"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 60
        while "Ray runtime started" not in (tmp_path / "log").read_text():
            assert head.poll() is None and time.monotonic() < deadline, "the head did not start"
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait(timeout=60)


def test_joining_a_cluster_without_authentication_is_said(tmp_path: Path, open_head: str) -> None:
    believes = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "d" * 64}
    for mode in ({}, believes):
        found = probe(tmp_path, RAY_ADDRESS=open_head, **mode)
        assert "joined the Ray cluster at" in found["where"]
        assert found["where"].count("warning: this Ray has no token authentication") == 1


def test_a_private_token_file_is_left_alone(tmp_path: Path, monkeypatch) -> None:
    token = tmp_path / "token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    assert protect_token_file() == ""
    token.touch(mode=0o600)
    assert protect_token_file() == ""


def test_the_default_token_file_is_made_private(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("x")
    token.chmod(0o640)
    assert "now 600" in protect_token_file()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_the_folder_of_ray_becomes_private_and_no_foreign_one_is_used(tmp_path: Path) -> None:
    outer = tmp_path / f"rlvr-ray-{os.getuid()}"
    outer.mkdir()
    outer.chmod(0o777)
    assert private_folder(str(tmp_path)) == outer / "ray"
    assert stat.S_IMODE(outer.stat().st_mode) == 0o700
    outer.rmdir()
    outer.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(ClusterError, match=r"set cluster\.temp_dir"):
        private_folder(str(tmp_path))
