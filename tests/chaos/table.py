"""One line a fault: how often, how fast it was made good, and whether that is good enough."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

COLUMNS = "{:34} {:>4} {:>9} {:>8} {:>8} {:>8}  {}"


@dataclass(frozen=True)
class Outcome:
    """What came of one fault in one run."""

    fault: str
    problems: list[str] = field(default_factory=list)
    seconds: float | None = None
    """From the noticed loss until the role works again with its state."""
    target_s: float | None = None
    recovered: bool = True
    """False for a fault that is answered by a message."""
    skipped: str = ""
    """Why this machine cannot make the fault."""

    @property
    def all_problems(self) -> list[str]:
        if self.seconds is None or self.target_s is None or self.seconds <= self.target_s:
            return self.problems
        return [*self.problems, f"took {self.seconds:.1f} s, target {self.target_s:.1f} s"]


def render(outcomes: Sequence[Outcome]) -> str:
    """The table, and below it every problem."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.fault, []).append(outcome)
    lines = [COLUMNS.format("fault", "runs", "recovered", "median s", "worst s", "target", "")]
    lines += [_line(fault, group) for fault, group in groups.items()]
    lines += [f"- {o.fault}: {problem}" for o in outcomes for problem in o.all_problems]
    return "\n".join(lines)


def _line(fault: str, group: Sequence[Outcome]) -> str:
    if group[0].skipped:
        return COLUMNS.format(fault, 0, "-", "-", "-", "-", f"skipped: {group[0].skipped}")
    seconds = [outcome.seconds for outcome in group if outcome.seconds is not None]
    targets = [outcome.target_s for outcome in group if outcome.target_s is not None]
    good = [outcome for outcome in group if not outcome.all_problems]
    recovered = sum(outcome.recovered for outcome in good)
    return COLUMNS.format(
        fault,
        len(group),
        recovered if recovered or not good else "message",
        f"{statistics.median(seconds):.2f}" if seconds else "-",
        f"{max(seconds):.2f}" if seconds else "-",
        f"{statistics.median(targets):.1f}" if targets else "-",
        "pass" if len(good) == len(group) else f"FAIL ({len(group) - len(good)})",
    )
