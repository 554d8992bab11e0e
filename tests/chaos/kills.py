"""One process of a run is killed at a random moment; the run ends as if nothing had been."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.checks import finished_whole
from tests.chaos.faults import (
    ACTOR,
    INSIDE_THE_POOL,
    Fault,
    Role,
    seconds_until_replaced,
    strike,
)
from tests.chaos.live import HarnessError, Live, seconds_of, start
from tests.chaos.table import Outcome

STEPS = 12
MAX_LAG = 1
"""As configs/dev/chaos.yaml says."""
VERIFIER_S, SERVICE_S, BEYOND_START_S = 3.0, 5.0, 5.0
NOTICED_S = 10.0
"""A dead process is missed when it is next needed, a step later at most, not at a deadline."""


@dataclass(frozen=True)
class Kill:
    """A process of `role`, killed when `fraction` of the step after `step` has gone by."""

    role: Role
    step: int
    fraction: float
    place: int

    def __str__(self) -> str:
        return f"{self.role} {self.place} at step {self.step} + {self.fraction:.2f}"


def plan(runs: int, seed: int) -> list[Kill]:
    """All roles in turn, each at a random moment that leaves steps to finish."""
    rng = random.Random(seed)
    roles = [list(Role)[number % len(Role)] for number in range(runs)]
    rng.shuffle(roles)
    return [Kill(role, rng.randrange(STEPS - 1), rng.random(), rng.randrange(8)) for role in roles]


def outcomes(folder: Path, runs: int, seed: int) -> Iterator[Outcome]:
    """One run for each kill of the plan."""
    for number, kill in enumerate(plan(runs, seed)):
        with start(folder / f"kill-{number}", [f"seed={number}"]) as live:
            yield from killed(live, [kill], STEPS)


def killed(live: Live, kills: Sequence[Kill], steps: int) -> list[Outcome]:
    """Kill in the order given, wait for the end, and judge; the run's problems are the first's."""
    try:
        faults = [_struck(live, kill) for kill in kills]
    except HarnessError as error:
        return [Outcome(f"SIGKILL {kill.role}", [f"{kill}: {error}"]) for kill in kills]
    run = live.finish()
    problems = [*finished_whole(run, steps, MAX_LAG), *live.leftovers()]
    found = [_judged(live, fault) for fault in faults]
    found[0].problems.extend(f"{', '.join(map(str, kills))}: {problem}" for problem in problems)
    return found


def _struck(live: Live, kill: Kill) -> tuple[Fault, float | None]:
    """The fault, and for a process inside the verifier pool the seconds until it is replaced."""
    live.wait_for_step(kill.step, kill.fraction)
    fault = strike(live, kill.role, kill.place)
    seconds = None
    if kill.role in INSIDE_THE_POOL:
        seconds = seconds_until_replaced(live, fault, limit_s=30.0)
    return fault, seconds


def _judged(live: Live, struck: tuple[Fault, float | None]) -> Outcome:
    fault, seconds = struck
    name, target = f"SIGKILL {fault.role}", target_s(live, fault.role)
    if seconds is not None:
        return Outcome(name, [], seconds, target)
    restarts = restarts_after(live, fault)
    if not restarts:
        missing = f"no role_restarted of the {ACTOR[fault.role]} in {live.folder}/events.jsonl"
        return Outcome(name, [missing], target_s=target)
    seconds = float(restarts[0]["seconds"])
    unnoticed = seconds_of(restarts[0]) - fault.at - seconds
    late = f"a death unnoticed for {unnoticed:.1f} s: {restarts[0]['reason']}"
    return Outcome(name, [late] if unnoticed > NOTICED_S else [], seconds, target)


def restarts_after(live: Live, fault: Fault) -> list[dict[str, Any]]:
    """What events.jsonl says of recoveries of a role since its fault."""
    return [
        event
        for event in live.events("role_restarted")
        if event["role"] == ACTOR[fault.role] and seconds_of(event) >= fault.at
    ]


def target_s(live: Live, role: Role) -> float:
    """How long a recovery of `role` may take, for dear roles by their own start."""
    if ACTOR[role] == Role.VERIFIER_POOL:
        return VERIFIER_S
    if role in (Role.REPLAY_BUFFER, Role.ALLOCATOR):
        return SERVICE_S
    return own_start_s(live, ACTOR[role]) + BEYOND_START_S


def own_start_s(live: Live, role: Role) -> float:
    """Seconds that the run's actors of `role` took to start, beside the others."""
    return max(e["seconds"] for e in live.events("role_started") if e["role"] == role)
