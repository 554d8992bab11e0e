"""Which process plays which role in a live run, and how it is killed or stopped."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.chaos.live import HarnessError, Live, seconds_of


class Role(StrEnum):
    ROLLOUT_WORKER = "rollout_worker"
    ENGINE = "engine"
    VERIFIER_WORKER = "verifier_worker"
    FORK_SERVER = "fork_server"
    VERIFIER_POOL = "verifier_pool"
    REPLAY_BUFFER = "replay_buffer"
    ALLOCATOR = "allocator"
    LEARNER = "learner"


ACTOR = {role: role for role in Role} | {
    Role.ENGINE: Role.ROLLOUT_WORKER,
    Role.VERIFIER_WORKER: Role.VERIFIER_POOL,
    Role.FORK_SERVER: Role.VERIFIER_POOL,
}
"""The actor whose process a role is, or whose child it is."""

INSIDE_THE_POOL = (Role.VERIFIER_WORKER, Role.FORK_SERVER)
"""The pool replaces these alone, without an event: their return is seen in the process table."""

_FORK_SERVER = "rlvr_platform.verifiers.forkserver"


@dataclass(frozen=True)
class Fault:
    """One signal to one process."""

    role: Role
    pid: int
    at: float
    """As `time.time` gives it."""


def processes(live: Live, role: Role) -> list[int]:
    """The living processes of a role, by index; those of its children in no order."""
    actors = actor_processes(live, ACTOR[role])
    if role is Role.ENGINE:
        return [pid for actor in actors for pid in children(actor) if "EngineCore" in name(pid)]
    if role in INSIDE_THE_POOL:
        servers = [pid for actor in actors for pid in children(actor) if _FORK_SERVER in name(pid)]
        if role is Role.FORK_SERVER:
            return servers
        return [pid for server in servers for pid in children(server)]
    return actors


def actor_processes(live: Live, role: Role) -> list[int]:
    """The newest process of each actor of a role, by index, as the run's events tell."""
    newest: dict[int, tuple[float, int]] = {}
    for event in (*live.events("role_started"), *live.events("role_restarted")):
        if event["role"] == role:
            known = newest.get(event["index"], (0.0, 0))
            newest[event["index"]] = max(known, (seconds_of(event), event["pid"]))
    return [pid for _, (_, pid) in sorted(newest.items())]


def strike(
    live: Live, role: Role, place: int = 0, number: signal.Signals = signal.SIGKILL
) -> Fault:
    """Send a signal to one of a role's processes, `place` modulo how many there are."""
    found = processes(live, role)
    if not found:
        raise HarnessError(f"no process of the role {role} in {live.folder}/events.jsonl or below")
    pid, at = found[place % len(found)], time.time()
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise HarnessError(f"the {role} {pid} had ended before it was struck") from None
    return Fault(role, pid, at)


def seconds_until_replaced(live: Live, fault: Fault, limit_s: float) -> float:
    """Seconds from a fault inside the verifier pool until other processes do its work.

    Raises HarnessError when that takes longer than `limit_s`.
    """
    before = {fault.pid}
    limit = time.time() + limit_s
    while time.time() < limit:
        now = set(processes(live, fault.role))
        if now - before and fault.pid not in now:
            return time.time() - fault.at
        time.sleep(0.01)
    raise HarnessError(f"the {fault.role} {fault.pid} was not replaced within {limit_s:g} s")


def children(pid: int) -> list[int]:
    """Process ids of the living children of any of a process's threads."""
    found = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in listing.read_text().split()]
        except OSError:
            continue
    return [child for child in found if name(child)]


def name(pid: int) -> str:
    """Command line and short name of a process; empty for one that has ended."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        return line and line + Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
