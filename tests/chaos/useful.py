"""How much of a run's time is useful when every tenth step suffers a fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.chaos.checks import finished_whole
from tests.chaos.faults import ACTOR, Role
from tests.chaos.kills import MAX_LAG, Kill, killed, own_start_s
from tests.chaos.live import HarnessError, Live, seconds_of, start
from tests.chaos.table import Outcome

STEPS = 40
WORK = ("rollout.prompts_per_step=96", "rollout.rollouts_per_prompt=16", "downsampling.keep=12")
"""Steps of seconds: those of users take minutes, and a recovery takes as long as for them."""
KILLS = (
    Kill(Role.ALLOCATOR, 5, 0.5, 0),
    Kill(Role.ENGINE, 13, 0.3, 0),
    Kill(Role.LEARNER, 22, 0.6, 1),
    Kill(Role.REPLAY_BUFFER, 31, 0.4, 0),
)
"""Two cheap roles and the two dear ones: 4 of 40 steps."""
TARGET = 0.8
ENGINE = ACTOR[Role.ENGINE]


def outcomes(folder: Path) -> Iterator[Outcome]:
    """The same run without and with the faults; the second one's problems and its useful time."""
    with start(folder / "useful-calm", [f"steps={STEPS}", *WORK]) as live:
        run = live.finish()
        if problems := finished_whole(run, STEPS, MAX_LAG):
            raise HarnessError(f"the run without faults: {problems[0]}")
        calm_s = steps_s(live)
    with start(folder / "useful-faults", [f"steps={STEPS}", *WORK]) as live:
        yield from killed(live, KILLS, STEPS)
        yield useful(live, calm_s)


def useful(live: Live, calm_s: float) -> Outcome:
    """Steps' time without faults over that with them, the engine's own start-up left out."""
    restarted = [e["seconds"] for e in live.events("role_restarted") if e["role"] == ENGINE]
    engines_s = sum(min(seconds, own_start_s(live, ENGINE)) for seconds in restarted)
    faulty_s = steps_s(live)
    share = calm_s / (faulty_s - engines_s)
    stated = (
        f"useful time {share:.2f} (steps without faults {calm_s:.1f} s, with faults "
        f"{faulty_s:.1f} s, of which {engines_s:.1f} s engine start-up are left out)"
    )
    print(stated)
    return Outcome("10 % of steps with a fault", [] if share >= TARGET else [stated])


def steps_s(live: Live) -> float:
    """Seconds from the first step's checkpoint to the last one's."""
    saved = live.events("checkpoint")
    return seconds_of(saved[-1]) - seconds_of(saved[0])
