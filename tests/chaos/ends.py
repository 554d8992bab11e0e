"""However a run ends, nothing of it remains: on this machine, and in a cluster that it joined."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.live import LEFTOVER_S, START_DEADLINE_S, HarnessError, Live, start
from tests.chaos.stuck import slow_verifier
from tests.chaos.table import Outcome
from tests.e2e.head import Head, running_head

TO_END_S = 60.0


@dataclass(frozen=True)
class End:
    """A signal to the controller, or to its whole process group as Ctrl-C does."""

    number: signal.Signals
    step: int
    """-1: while engines and learners start."""
    group: bool
    times: int = 1

    def __str__(self) -> str:
        when = "in a step" if self.step >= 0 else "during the start"
        return f"{self.number.name} x{self.times} {when}"


ENDS = (
    End(signal.SIGINT, step=4, group=True),
    End(signal.SIGTERM, step=4, group=False),
    End(signal.SIGTERM, step=4, group=False, times=2),
    End(signal.SIGINT, step=-1, group=True),
    End(signal.SIGTERM, step=-1, group=False),
)
IN_A_CLUSTER = {
    "success": (0, ["steps=4"]),
    "error": (3, slow_verifier("always")),
    "SIGINT": (130, ["steps=2000"]),
    "SIGTERM": (130, ["steps=2000"]),
    "SIGKILL": (-signal.SIGKILL, ["steps=2000"]),
}
"""The exit code that is wanted and the run's overrides; signals go to the controller."""


def outcomes(folder: Path) -> Iterator[Outcome]:
    """One run for each end, on a Ray of its own (where success and error end all other parts'
    runs), and in a cluster that goes on."""
    for number, end in enumerate(ENDS):
        yield ended(folder / f"end-{number}", end)
    yield from in_a_cluster(folder)


def ended(folder: Path, end: End) -> Outcome:
    """One run that is told to end; exit code 130 and nothing left."""
    with start(folder, ["steps=2000"]) as live:
        try:
            _wait(live, end.step)
        except HarnessError as error:
            return Outcome(str(end), [str(error)])
        send, target = (os.killpg, os.kill)[not end.group], live.process.pid
        for _ in range(end.times):
            send(target, end.number)
            time.sleep(0.05)
        run = live.finish(TO_END_S)
        problems = live.leftovers()
    if run.code != 130 or "Traceback" in run.output:
        problems.append(f"exit code {run.code}, wanted 130 and no traceback: {run.output[-1500:]}")
    return Outcome(str(end), problems, recovered=False)


def in_a_cluster(folder: Path) -> Iterator[Outcome]:
    """Runs that join one cluster after the other; it must be as before after each."""
    with running_head(folder / "head") as head:
        for end, (code, overrides) in IN_A_CLUSTER.items():
            with start(folder / end, overrides, environment=head.driver) as live:
                try:
                    problems = _ended_in(live, end, code)
                except HarnessError as error:
                    problems = [str(error)]
            problems += [*live.leftovers(), *_left_in(head)]
            yield Outcome(f"{end} in a cluster", problems, recovered=False)


def _ended_in(live: Live, end: str, code: int) -> list[str]:
    if end in signal.Signals.__members__:
        live.wait_for_step(2, 0.5)
        os.kill(live.process.pid, signal.Signals[end])
    run = live.finish()
    if run.code == code:
        return []
    return [f"exit code {run.code}, wanted {code}: {run.output[-1500:]}"]


def _left_in(head: Head) -> list[str]:
    """What a cluster still holds or does for a run, once it had time to end it."""
    limit = time.monotonic() + LEFTOVER_S
    while (found := head.held()) and time.monotonic() < limit:
        time.sleep(1.0)
    return found


def _wait(live: Live, step: int) -> None:
    if step >= 0:
        return live.wait_for_step(step, 0.5)
    live.wait(lambda: bool(live.events("started")), "the start", START_DEADLINE_S)
    return time.sleep(5.0)
