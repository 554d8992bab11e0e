"""Deterministic runs: kill -9 of the controller and `--resume`, or of every role: the same run."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.faults import Role
from tests.chaos.kills import Kill, killed
from tests.chaos.live import HarnessError, Live, seconds_of, start
from tests.chaos.table import Outcome
from tests.e2e.conftest import Run
from tests.e2e.exactness import unequal

CONFIG = "configs/dev/deterministic.yaml"
STEPS = 8
OVERRIDES = (
    f"steps={STEPS}",
    "replay.reuse.start_step=2",
    "evaluation.suites=[]",
    "rollout.prompts_per_step=8",
    "rollout.engine.threads=1",
    "learner.threads=1",
)
CHECKPOINT_DEADLINE_S = 20.0
ORPHANS_S = 5.0
"""In which actors without a controller end."""


@dataclass(frozen=True)
class Moment:
    """When the controller is killed: within the step after `step`, or in its checkpoint."""

    step: int
    fraction: float
    in_checkpoint: bool

    def __str__(self) -> str:
        place = "in the next checkpoint" if self.in_checkpoint else f"+ {self.fraction:.2f}"
        return f"controller at step {self.step} {place}"


def plan(runs: int, seed: int) -> list[Moment]:
    """Random moments; every third while a checkpoint is being written."""
    rng = random.Random(seed)
    return [
        Moment(rng.randrange(STEPS - 1), rng.random(), in_checkpoint=number % 3 == 2)
        for number in range(runs)
    ]


def outcomes(folder: Path, runs: int, seed: int) -> Iterator[Outcome]:
    """One interrupted and resumed run for each moment of the plan."""
    whole = uninterrupted(folder / "uninterrupted")
    for number, moment in enumerate(plan(runs, seed)):
        yield resumed(folder / f"controller-{number}", moment, whole)
    yield every_role_lost(folder / "every-role", whole)


def uninterrupted(folder: Path) -> Run:
    """The run that the others are held against."""
    with start(folder, OVERRIDES, CONFIG) as live:
        run = live.finish()
    if run.code != 0:
        raise HarnessError(f"the uninterrupted run ended with {run.code}: {run.output[-2000:]}")
    return run


def resumed(folder: Path, moment: Moment, whole: Run) -> Outcome:
    """One run, killed and resumed to its end."""
    fault = "kill -9 controller, --resume"
    if moment.in_checkpoint:
        fault += ", in checkpoint"
    problems = []
    try:
        with start(folder, OVERRIDES, CONFIG) as live:
            _kill(live, moment)
            # Of the processes, Ray's own agents take a minute or two to miss their parent: they are
            # looked at in the end.
            time.sleep(ORPHANS_S)
            problems += [f"after the kill: {name}" for name in live.shared()]
        with start(folder, OVERRIDES, CONFIG, options=["--resume"]) as live:
            run = live.finish()
            problems += live.leftovers()
            seconds = _until_resumed(live)
    except HarnessError as error:
        return Outcome(fault, [f"{moment}: {error}"])
    problems += [f"exit code {run.code}: {run.output[-1500:]}"] if run.code else []
    problems += [] if run.code else [f"{part} differ" for part in unequal(run, whole)]
    return Outcome(fault, [f"{moment}: {problem}" for problem in problems], seconds)


def every_role_lost(folder: Path, whole: Run) -> Outcome:
    """One run that loses the process of each role, one step after the other."""
    roles = (
        Role.ENGINE,
        Role.REPLAY_BUFFER,
        Role.LEARNER,
        Role.ALLOCATOR,
        Role.ROLLOUT_WORKER,
        Role.VERIFIER_POOL,
    )
    kills = [Kill(role, step, 0.5, 0) for step, role in enumerate(roles)]
    with start(folder, OVERRIDES, CONFIG) as live:
        found = killed(live, kills, STEPS)
        problems = [problem for outcome in found for problem in outcome.all_problems]
        problems += [] if problems else [f"{part} differ" for part in unequal(live.finish(), whole)]
    return Outcome("SIGKILL of every role, the same run", problems)


def _kill(live: Live, moment: Moment) -> None:
    live.wait_for_step(moment.step, moment.fraction)
    if moment.in_checkpoint:
        rooms = live.folder / "checkpoints"
        live.wait(
            lambda: any(rooms.glob(".step-*")), "a checkpoint being written", CHECKPOINT_DEADLINE_S
        )
    os.kill(live.process.pid, signal.SIGKILL)
    live.process.wait()


def _until_resumed(live: Live) -> float | None:
    """Seconds from the second start until the state was loaded; None without a checkpoint."""
    started, loaded = live.events("started"), live.events("resumed")
    return seconds_of(loaded[-1]) - seconds_of(started[-1]) if loaded else None
