"""Not dead but stuck, full or slow: it ends in recovery, or in one message that names the cause."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checks import finished_whole
from tests.chaos.faults import ACTOR, Role, strike
from tests.chaos.kills import MAX_LAG, STEPS, own_start_s, restarts_after
from tests.chaos.live import HarnessError, seconds_of, start
from tests.chaos.table import Outcome
from tests.e2e.conftest import ROOT, Run

DEADLINES = (
    "rollout.group_timeout_s=15",
    "learner.update_timeout_s=15",
    "sync.timeout_s=5",
    "supervision.call_timeout_s=10",
)
NOTICED_S = 45.0
"""The longest of these, which is the load of weights: eight phases of a sync; and some polling."""
TO_END_S = 180.0
GOLD_S = 90.0
"""For finding out, before anything starts, that a verifier is too slow even for gold answers."""
STRUCK_AFTER = 4
SLOW = f"{ROOT}/tests/chaos/slow_verifier.py"
DISK_MIB = 1400
"""Above what a new run asks for; full once the harness has filled it."""
STORE_DISK_MIB = 256
KEPT_FOR_RACES = 32 << 20
"""What the run may write while most of its disk is taken; the rest is taken page by page."""
SMALLEST_STORE_GIB = 0.075


@dataclass(frozen=True)
class Stopped:
    """A process that is stopped and never goes on by itself."""

    role: Role
    place: int


STOPPED = (
    Stopped(Role.ENGINE, 0),
    Stopped(Role.ROLLOUT_WORKER, 0),
    Stopped(Role.LEARNER, 0),
    Stopped(Role.LEARNER, 1),
    Stopped(Role.REPLAY_BUFFER, 0),
    Stopped(Role.ALLOCATOR, 0),
    Stopped(Role.VERIFIER_POOL, 0),
)


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Every fault of this kind, one run each."""
    for number, stopped in enumerate(STOPPED):
        yield sigstop(folder / f"stopped-{number}", stopped)
    yield slow_at_times(folder / "slow-at-times")
    yield slow_always(folder / "slow-always", "always", TO_END_S)
    yield slow_always(folder / "slow-gold", "even_for_gold", GOLD_S)
    yield full_disk(folder / "full-disk")
    yield small_store(folder / "small-store")
    yield full_store(folder / "store")


def sigstop(folder: Path, stopped: Stopped) -> Outcome:
    """The process never answers, and nothing says that it is dead: it must be replaced.

    The seconds are those from the fault on, deadline included.
    """
    fault_name = f"SIGSTOP {stopped.role} {stopped.place}"
    # Verdicts wait for the pool as long as their own deadline and a minute more.
    noticed_s = NOTICED_S + (70.0 if stopped.role is Role.VERIFIER_POOL else 0.0)
    with start(folder, DEADLINES) as live:
        try:
            live.wait_for_step(STRUCK_AFTER, 0.5)
            fault = strike(live, stopped.role, stopped.place, signal.SIGSTOP)
        except HarnessError as error:
            return Outcome(fault_name, [str(error)])
        run = live.finish(noticed_s + TO_END_S)
        problems = [*finished_whole(run, STEPS, MAX_LAG), *live.leftovers()]
        restarts = restarts_after(live, fault)
        if not restarts:
            return Outcome(fault_name, [*problems, "no role_restarted in events.jsonl"])
        seconds = seconds_of(restarts[0]) - fault.at
        target = noticed_s + own_start_s(live, ACTOR[stopped.role]) + 5.0
    return Outcome(fault_name, problems, seconds, target)


def slow_at_times(folder: Path) -> Outcome:
    """A few verdicts run past their deadline: they are timeouts, and the run goes on."""
    overrides = [*slow_verifier("sometimes"), "verifier.pool.max_invalid_fraction=0.9"]
    with start(folder, overrides) as live:
        run = live.finish()
        problems = [*finished_whole(run, STEPS, MAX_LAG), *live.leftovers()]
    if not problems and not any(record.get("verdict/timeout") for record in run.metrics):
        problems = ["no verdict ran past its deadline"]
    return Outcome("slow verifier, sometimes", problems)


def slow_always(folder: Path, function: str, limit_s: float) -> Outcome:
    """No verdict ever comes: the run must say so and stop."""
    with start(folder, slow_verifier(function)) as live:
        run = live.finish(limit_s)
        problems = [*one_message(run, ("verdict", "timeout", "gold")), *live.leftovers()]
    return Outcome(f"slow verifier, {function.replace('_', ' ')}", problems, recovered=False)


def full_disk(folder: Path) -> Outcome:
    """The run folder's disk fills up; with room again, `--resume` ends the run."""
    name = "full disk, --resume with room"
    with small_disk(folder, DISK_MIB) as why_not:
        if why_not:
            return Outcome(name, skipped=why_not)
        log, place = folder.with_suffix(".log"), folder / "run"
        with start(place, log=log) as live:
            live.wait_for_step(STRUCK_AFTER)
            ballast = fill(folder)
            problems = [*one_message(live.finish(), ("No space left", "free")), *live.leftovers()]
        ballast.unlink()
        with start(place, options=["--resume"], log=log.with_suffix(".resumed.log")) as live:
            problems += [*finished_whole(live.finish(), STEPS, MAX_LAG), *live.leftovers()]
    return Outcome(name, problems)


def small_store(folder: Path) -> Outcome:
    """Ray's smallest object store: what does not fit is spilled to disk, and the run goes on."""
    with start(folder, [f"cluster.object_store_gib={SMALLEST_STORE_GIB}"]) as live:
        problems = [*finished_whole(live.finish(), STEPS, MAX_LAG), *live.leftovers()]
    return Outcome("smallest object store", problems)


def full_store(folder: Path) -> Outcome:
    """The object store is full, and so is the disk to which it would spill."""
    name = "full object store, no disk to spill to"
    with small_disk(folder, STORE_DISK_MIB) as why_not:
        if why_not:
            return Outcome(name, skipped=why_not)
        overrides = [
            f"cluster.object_store_gib={SMALLEST_STORE_GIB}",
            f"cluster.temp_dir={folder}",
            "rollout.max_lag=0",
            "steps=200",
            "rollout.prompts_per_step=64",
        ]
        with start(folder.with_name("store-run"), overrides) as live:
            live.wait_for_step(STRUCK_AFTER)
            fill(folder)
            run = live.finish(TO_END_S)
            problems = live.leftovers()
    if run.code == 0:
        return Outcome(name, problems + finished_whole(run, 200, 0))
    return Outcome(name, problems + one_message(run, ("object store", "spill")), recovered=False)


def one_message(run: Run, words: Sequence[str]) -> list[str]:
    """The run ended by itself with one error that holds one of the words, and no traceback."""
    messages = [line for line in run.output.splitlines() if line.startswith("error: ")]
    tail = run.output[-1500:]
    if run.code not in (2, 3):
        return [f"exit code {run.code}, wanted 2 or 3 and a message: {tail}"]
    if len(messages) != 1 or "Traceback" in run.output:
        return [f"{len(messages)} messages, wanted one and no traceback: {tail}"]
    said = run.output[run.output.index(messages[0]) :]
    return [] if any(word in said for word in words) else [f"no word of {words}: {said}"]


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[str]:
    """A file system of `mib` MiB at `folder` meanwhile; yields why there is none, or nothing."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        yield f"no right to mount a small disk: {done.stderr.strip()}"
        return
    try:
        yield ""
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take what is left of a disk, down to the last page; returns the file that does."""
    ballast = folder / "ballast"
    free = os.statvfs(folder)
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - KEPT_FOR_RACES)
        while file.write(bytes(4096)):
            pass
    return ballast


def slow_verifier(function: str) -> list[str]:
    """Overrides that judge by a function of slow_verifier.py, with a short deadline."""
    use = f"{{kind: function, path: '{SLOW}:{function}'}}"
    return [f"verifier.use={use}", "verifier.pool.deadline_s=0.5"]
