"""The wall clock jumps under a running run, and no deadline minds: all are on the monotonic one."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.checks import finished_whole
from tests.chaos.kills import MAX_LAG, STEPS
from tests.chaos.live import HarnessError, Live, seconds_of, start
from tests.chaos.table import Outcome
from tests.e2e.conftest import ROOT

SOURCE = Path(__file__).with_name("jumping_clock.c")
JUMPS = ((3, 36_000), (7, -36_000))
"""Seconds by which the clock is off from the middle of the step after this one on."""
TO_END_S = 120.0
WALL_CLOCKS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow")}
TIMESTAMPS = {
    "rlvr_platform/telemetry/manifest.py",
    "rlvr_platform/telemetry/sinks.py",
    "rlvr_platform/cli/train.py",
}
"""Where the time of day is written down or names a folder, and nothing is decided by it."""


def outcomes(folder: Path) -> Iterator[Outcome]:
    """The sources, and a run whose clock jumps."""
    yield Outcome("deadlines read no wall clock", wall_clock_readers(), recovered=False)
    yield jump(folder / "clock")


def wall_clock_readers() -> list[str]:
    """Places in the sources that read the time of day, other than to write it down."""
    found = []
    for package in ("actors", "rlvr_platform"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if name not in TIMESTAMPS:
                found += [f"{name}:{line} reads the wall clock" for line in wall_clock_lines(path)]
    return found


def wall_clock_lines(path: Path) -> list[int]:
    """Lines on which a Python file uses a function of the wall clock, or imports it by name."""
    lines = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            lines += [node.lineno] * ((node.value.id, node.attr) in WALL_CLOCKS)
        if isinstance(node, ast.ImportFrom):
            names = {(node.module, alias.name) for alias in node.names}
            lines += [node.lineno] * bool(names & WALL_CLOCKS)
    return lines


def jump(folder: Path) -> Outcome:
    """A run in whose Python processes the clock leaps ten hours ahead, then ten behind."""
    name = "clock jump, +10 h then -10 h"
    compiler = shutil.which("cc")
    if compiler is None:
        return Outcome(name, skipped="no C compiler for tests/chaos/jumping_clock.c")
    library, offset = folder.with_suffix(".so"), folder.with_suffix(".offset")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    offset.write_text("0")
    environment = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}
    with start(folder, environment=environment) as live:
        try:
            for step, seconds in JUMPS:
                live.wait_for_step(step, 0.5)
                offset.write_text(str(seconds))
        except HarnessError as error:
            return Outcome(name, [str(error)])
        run = live.finish(TO_END_S)
        problems = [*finished_whole(run, STEPS, MAX_LAG), *live.leftovers()]
        return Outcome(name, problems + ([] if problems else _unmoved(live)))


def _unmoved(live: Live) -> list[str]:
    """The run's own timestamps must show the jump, or nothing was tested."""
    times = [seconds_of(event) for event in live.events("checkpoint")]
    moved = max(times) - min(times)
    return [] if moved > max(seconds for _, seconds in JUMPS) else [f"the clock moved {moved:g} s"]
