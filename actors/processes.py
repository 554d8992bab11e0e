"""The processes behind actors: who they are, what they are doing, and their certain end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.deadlines import within

T = TypeVar("T")

DUMP_DEADLINE_S = 20.0
NODE_DEADLINE_S = 60.0
GRACE_S = 5.0
"""For a process to end that was told to."""
STARTTIME = 19
"""Its place in /proc/PID/stat, counted after the command; see proc_pid_stat(5)."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the run; the start time tells it from a later one with the same number."""

    pid: int
    started: int
    """Clock ticks since boot: unlike a time of day, it is the same whenever it is read."""


@dataclass(frozen=True, slots=True)
class Family:
    """An actor's process, and the children that it had."""

    node: str
    own: Process
    children: tuple[Process, ...]


class Member:
    """What every actor of a run can answer."""

    def identify(self) -> Family:
        """This actor's process and its children at this time."""
        node, own = ray.get_runtime_context().get_node_id(), os.getpid()
        return grown(Family(node, Process(own, _started(own)), ()))


def grown(family: Family) -> Family:
    """The family with the children that it has now; those of a dead process are not known."""
    own = _alive(family.own)
    now = () if own is None else _children(own)
    found = []
    for child in now:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(Process(child.pid, _started(child.pid)))
    return dataclasses.replace(family, children=tuple({*family.children, *found}))


def kill(family: Family) -> None:
    """Kill the processes, stopped ones too, with whatever children they have now."""
    found = [p for p in map(_alive, (family.own, *family.children)) if p is not None]
    below = [child for process in found for child in _children(process)]
    for process in (*below, *found):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def finish(family: Family) -> None:
    """Let the processes, which were told to end, do so; kill those that do not."""
    found = [p for p in map(_alive, (family.own, *family.children)) if p is not None]
    psutil.wait_procs(found, timeout=GRACE_S)
    kill(family)


def dump(family: Family) -> dict[str, str]:
    """What each process of the family is doing, by "pid name": Python stacks where py-spy works."""
    found = [p for p in map(_alive, (family.own, *family.children)) if p is not None]
    if not found:
        return {str(family.own.pid): "the process has ended"}
    return {f"{process.pid} {_name(process)}": _describe(process.pid) for process in found}


async def on_node(function: Callable[[Family], T], family: Family) -> T:
    """`kill`, `finish` or `dump` on the family's own node. Raises RayError or DeadlineError."""
    if family.node == ray.get_runtime_context().get_node_id():
        return await asyncio.to_thread(function, family)
    strategy = NodeAffinitySchedulingStrategy(family.node, soft=False)
    task: Any = ray.remote(num_cpus=0)(function)
    call = task.options(scheduling_strategy=strategy).remote(family)
    return await within(call, NODE_DEADLINE_S, f"node {family.node}", "see whether it is alive")


def _alive(process: Process) -> psutil.Process | None:
    try:
        found = psutil.Process(process.pid)
        return found if _started(process.pid) == process.started else None
    except psutil.NoSuchProcess:
        return None


def _started(pid: int) -> int:
    """Raises psutil.NoSuchProcess."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return int(stat.rpartition(")")[2].split()[STARTTIME])


def _children(process: psutil.Process) -> Sequence[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return "ended"


def _describe(pid: int) -> str:
    state = _state(pid)
    places = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    spy = shutil.which("py-spy", path=os.pathsep.join(places))
    if spy is None:
        return state
    command = [spy, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DUMP_DEADLINE_S)
    except (subprocess.TimeoutExpired, OSError) as error:
        return f"{state}; no Python stack: {error}"
    return f"{state}\n{done.stdout or done.stderr}".strip()


def _state(pid: int) -> str:
    """The kernel's word for what the process does, such as T (stopped)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError as error:
        return f"state unknown: {error}"
    return next((line for line in lines if line.startswith("State:")), "state unknown")
