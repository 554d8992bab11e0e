"""Processes are told apart, seen and ended, whatever the clock does meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from actors.processes import Family, Process, dump, finish, grown, kill

PARENT = "import subprocess, sys, time; subprocess.Popen(['sleep', '60']); print(); time.sleep(60)"


Parent = subprocess.Popen[bytes]


@pytest.fixture
def parent() -> Iterator[Parent]:
    """A process with a child."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    children = psutil.Process(process.pid).children()
    yield process
    for found in (*children, process):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.kill()
    process.wait()


def family(process: Parent) -> Family:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    return grown(Family("", Process(process.pid, int(stat.split()[21])), ()))


def gone(pid: int) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("end", [kill, finish])
def test_a_stopped_process_is_ended_with_its_children_also_after_the_clock_was_set(
    parent: Parent, monkeypatch: pytest.MonkeyPatch, end: Callable[[Family], None]
) -> None:
    own = family(parent)
    assert len(own.children) == 1
    os.kill(parent.pid, signal.SIGSTOP)
    boot = psutil.boot_time() + 3600
    monkeypatch.setattr(psutil._pslinux, "boot_time", lambda: boot)
    monkeypatch.setattr("actors.processes.GRACE_S", 0.1)
    end(own)
    assert gone(parent.pid) and gone(own.children[0].pid)


def test_a_later_process_with_the_same_number_is_left_alone(
    parent: Parent,
) -> None:
    own = family(parent).own
    kill(Family("", Process(own.pid, own.started - 1), ()))
    assert parent.poll() is None
    assert "ended" in str(dump(Family("", Process(own.pid, own.started - 1), ())))


def test_children_outlive_their_parent_in_what_is_known_of_it(
    parent: Parent,
) -> None:
    own = family(parent)
    (child,) = own.children
    parent.kill()
    parent.wait()
    assert grown(own) == own
    kill(own)
    assert gone(child.pid)
