"""However a run ends, nothing of it remains; the ends in success and error are all the others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.live import START_DEADLINE_S, HarnessError, Live, start
from tests.chaos.table import Outcome

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


def outcomes(folder: Path) -> Iterator[Outcome]:
    """One run for each end."""
    for number, end in enumerate(ENDS):
        yield ended(folder / f"end-{number}", end)


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


def _wait(live: Live, step: int) -> None:
    if step >= 0:
        return live.wait_for_step(step, 0.5)
    live.wait(lambda: bool(live.events("started")), "the start", START_DEADLINE_S)
    return time.sleep(5.0)
