"""Rollouts to read: of the first and the last recorded step, the best, the worst, a mixed group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_platform.errors import InputError
from rlvr_platform.report.html import Html, el
from rlvr_platform.report.numbers import number
from rlvr_platform.report.sections import section
from rlvr_platform.report.tables import table, text_block
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.rollouts import read_rollouts
from rlvr_platform.types import Fate

MOST_CHARACTERS = 3000
MOST_EXTRACTED = 200
MOST_SIBLINGS = 16
_FILE = re.compile(r"step-(\d+)\.parquet")
_SHOWN = ["group_id", "sibling", "prompt", "completion", "gold", "finish", "verdict"]
_SHOWN += ["extracted", "rule", "reward", "advantage", "fate"]

Row = Mapping[str, Any]
"""One rollout: the columns `_SHOWN` of its Parquet file."""


@dataclass(frozen=True, slots=True)
class Example:
    """Siblings of one prompt, and why they are shown."""

    reason: str
    rows: Sequence[Row]


def examples_section(folder: RunFolder) -> Html:
    """Examples of the last recorded step, then of the first."""
    steps = recorded_steps(folder)
    if not steps:
        return section("rollouts", "Rollouts", el("p", "No rollout recorded."))
    chosen = dict.fromkeys([steps[-1], steps[0]])
    blocks = [_step(folder.rollouts(step), step, len(chosen) > 1) for step in chosen]
    return section("rollouts", "Rollouts", *blocks)


def recorded_steps(folder: RunFolder) -> list[int]:
    """The steps whose rollouts were written, in order."""
    there = (folder.path / "rollouts").glob("step-*.parquet")
    return sorted(int(match[1]) for match in (_FILE.fullmatch(p.name) for p in there) if match)


def choose(rows: Sequence[Row]) -> list[Example]:
    """Of the step's own rollouts the best, the worst, one without a verdict and the group whose
    rewards differ most; and one that an earlier step generated."""
    replayed = [row for row in rows if row["fate"] == Fate.REPLAYED.name]
    own = [row for row in rows if row["fate"] != Fate.REPLAYED.name]
    judged = sorted((row for row in own if row["reward"] is not None), key=_merit)
    unjudged = [row for row in own if row["reward"] is None]
    groups: dict[int, list[Row]] = {}
    for row in own:
        groups.setdefault(row["group_id"], []).append(row)
    mixed = max(groups.values(), key=_spread, default=[])
    found = [
        Example("the best", judged[-1:]),
        Example("the worst", judged[:1]),
        Example("one without a verdict", unjudged[:1]),
        Example("a group whose siblings differ", mixed if _spread(mixed) > 0 else []),
        Example("one replayed from an earlier step", replayed[:1]),
    ]
    return [example for example in found if example.rows]


def _merit(row: Row) -> tuple[float, float]:
    return row["reward"], row["advantage"] or 0.0


def _spread(rows: Sequence[Row]) -> float:
    """Variance of the rewards."""
    rewards = [row["reward"] for row in rows if row["reward"] is not None]
    if not rewards:
        return 0.0
    mean = sum(rewards) / len(rewards)
    return sum((reward - mean) ** 2 for reward in rewards) / len(rewards)


def _step(path: Path, step: int, many: bool) -> Html:
    title = el("h3", f"Step {step:,}" + (", the only one recorded" if not many else ""))
    try:
        rows = read_rollouts(path).select(_SHOWN).to_pylist()
    except InputError as error:
        return el("div", title, el("p", error))
    if not rows:
        return el("div", title, el("p", "The step has no rollouts."))
    return el("div", title, *(_card(example) for example in choose(rows)))


def _card(example: Example) -> Html:
    first, shown = example.rows[0], example.rows[:MOST_SIBLINGS]
    more = len(example.rows) - len(shown)
    return el(
        "article",
        el("h4", f"{example.reason}: group {first['group_id']}"),
        el("p", "prompt", class_="quiet"),
        text_block(first["prompt"], MOST_CHARACTERS),
        el("p", "gold: ", el("code", first["gold"])),
        table(_HEAD, map(_cells, shown), numeric=2),
        el("p", f"{more} more siblings in the Parquet file.") if more else "",
    )


_HEAD = ["sibling", "completion", "verdict", "extracted", "finish", "fate", "reward", "advantage"]


def _cells(row: Row) -> list[object]:
    return [
        row["sibling"],
        text_block(row["completion"], MOST_CHARACTERS),
        f"{row['verdict']} ({row['rule']})",
        el("code", _cut(row["extracted"])),
        row["finish"],
        row["fate"],
        _optional(row["reward"]),
        _optional(row["advantage"]),
    ]


def _cut(text: str) -> str:
    return text if len(text) <= MOST_EXTRACTED else f"{text[:MOST_EXTRACTED]}…"


def _optional(value: float | None) -> str:
    return "none" if value is None else number(value)
