"""The sections that answer: did it learn, is it healthy, where did time and tokens go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rlvr_platform.config import ExperimentConfig
from rlvr_platform.progress import StepTimer
from rlvr_platform.report.figures import Curve, figures, line_figure, phases, worked_out
from rlvr_platform.report.html import Html, el, join
from rlvr_platform.report.meaning import in_order
from rlvr_platform.report.numbers import number, seconds
from rlvr_platform.report.run_data import FAILURE, RESUME, RunData
from rlvr_platform.report.tables import bar, code, facts, table
from rlvr_platform.telemetry.progress import percent

PROBE = "sync/probe_max_abs_diff"
_BESIDE = {
    "time/idle_learner": "waiting, inside the step",
    "time/idle_rollout": "waiting, inside the step",
    **{f"time/{phase}": "outside the step" for phase in StepTimer.ASIDE},
}
"""Where the times belong that are no part of a step."""
NOTHING = "Nothing recorded yet."
_KEY = "sync.probe_tolerance"


@dataclass(frozen=True, slots=True)
class Topic:
    """A question, and the families of metrics that answer it."""

    anchor: str
    title: str
    families: tuple[str, ...]


LEARNING = Topic("learning", "Did it learn?", ("reward", "eval", "acr"))
HEALTH = Topic(
    "health", "Is it healthy?", ("policy", "loss", "grad", "learning_rate", "lag", "buffer", "sync")
)
TIME = Topic("time", "Where did the time go?", ("time",))
WASTE = Topic("waste", "What was wasted?", ("rollouts", "tokens", "verdict"))
METHODS = Topic("methods", "What did the methods do?", ("allocation", "avspo", "replay"))
OTHER = Topic("other", "Everything else", ())
"""What no other topic asks for."""
TOPICS = (LEARNING, HEALTH, TIME, WASTE, METHODS, OTHER)


def metric_sections(run: RunData) -> list[Html]:
    """One section for each topic; every metric of the run is in exactly one figure."""
    derived = worked_out(run)
    return [
        section(LEARNING.anchor, LEARNING.title, _grid(run, LEARNING, derived, "rows with signal")),
        section(HEALTH.anchor, HEALTH.title, facts(health(run)), _grid(run, HEALTH, derived)),
        section(TIME.anchor, TIME.title, time_table(run), _grid(run, TIME, derived, "throughput")),
        section(WASTE.anchor, WASTE.title, *ledgers(run), _grid(run, WASTE, derived)),
        section(METHODS.anchor, METHODS.title, _grid(run, METHODS, derived)),
        section(OTHER.anchor, OTHER.title, _grid(run, OTHER, derived)),
    ]


def section(anchor: str, title: str, *content: object) -> Html:
    return el("section", el("h2", title), *content, id=anchor)


def names_of(topic: Topic, names: Iterable[str]) -> list[str]:
    """Those of `names` that answer `topic`."""
    claimed = {family for other in TOPICS for family in other.families}
    if topic is OTHER:
        return [name for name in names if name.partition("/")[0] not in claimed]
    return [name for name in names if name.partition("/")[0] in topic.families]


def health(run: RunData) -> list[tuple[str, object]]:
    """What a glance at the run's health needs, each as a name and its finding."""
    kinds = [event.get("kind") for event in run.events]
    counted = {
        "errors that ended the run": FAILURE,
        "times it was resumed": RESUME,
        "damaged checkpoints passed over": "checkpoint_damaged",
    }
    return [
        *_sync_proof(run),
        *_invalid(run),
        *_lag(run),
        *((words, kinds.count(kind)) for words, kind in counted.items()),
    ]


def time_table(run: RunData) -> Html:
    """Seconds by phase over the whole run, beside the wall time of all steps."""
    names = in_order(name for name in run.series if name.startswith("time/"))
    if not names:
        return Html()
    wall = run.series.get("time/step")
    inside = set(phases(names))
    rows = [_time_row(run, name, wall.total if wall else 0.0, name in inside) for name in names]
    return table(["phase", "", "", "share of steps", "total", "mean"], rows, numeric=3)


def ledgers(run: RunData) -> list[Html]:
    """Tokens, rollouts and verdicts of the whole run, each as a share of what was generated."""
    bases = {"tokens": "tokens/generated", "rollouts": "rollouts/generated", "verdict": ""}
    return [_ledger(run, family, base) for family, base in bases.items()]


def _grid(run: RunData, topic: Topic, derived: dict[str, Curve], *more: str) -> Html:
    worked = [line_figure(run, name, [derived[name]]) for name in more if name in derived]
    found = [*figures(run, names_of(topic, run.series)), *worked]
    return el("div", *found, class_="grid") if found else el("p", NOTHING, class_="quiet")


def _sync_proof(run: RunData) -> list[tuple[str, object]]:
    data = run.series.get(PROBE)
    if data is None:
        return []
    worst = int(np.argmax(data.values))
    found = (
        f"{len(data.values):,} updates proven; largest difference of probe log-probabilities "
        f"{number(data.values[worst])} nats, at step {data.steps[worst]:,}"
    )
    return [("weights delivered", found), ("allowed difference", _tolerance(run))]


def _tolerance(run: RunData) -> Html:
    if not isinstance(run.config, ExperimentConfig):
        return join(["not known: config.yaml cannot be read"])
    return join([number(run.config.probe_tolerance), " nats (", code(_KEY), ")"])


def _invalid(run: RunData) -> list[tuple[str, object]]:
    invalid, made = (run.series.get(f"rollouts/{n}") for n in ("invalid", "generated"))
    if invalid is None or made is None or not made.total:
        return []
    share = percent(invalid.total / made.total)
    return [
        ("rollouts without a verdict", f"{number(invalid.total)} of {number(made.total)} ({share})")
    ]


def _lag(run: RunData) -> list[tuple[str, object]]:
    lag = run.series.get("lag/max")
    if lag is None:
        return []
    bound = ""
    if isinstance(run.config, ExperimentConfig):
        bound = f"; rollout.max_lag is {run.config.rollout.max_lag}"
    return [("largest lag", f"{number(lag.values.max())} versions{bound}")]


def _time_row(run: RunData, name: str, wall: float, inside: bool) -> list[object]:
    data = run.series[name]
    share = data.total / wall if wall else 0.0
    return [
        code(name),
        "part of the step" if inside else _BESIDE.get(name, ""),
        bar(share),
        percent(share),
        seconds(data.total),
        seconds(data.total / len(data.values)),
    ]


def _ledger(run: RunData, family: str, base: str) -> Html:
    names = in_order(name for name in run.series if name.startswith(f"{family}/"))
    if not names:
        return Html()
    parts = [base] if base in run.series else names
    whole = sum(run.series[name].total for name in parts)
    rows = [_ledger_row(run, name, whole) for name in names]
    share = f"share of {base}" if base in run.series else "share of all"
    return table([f"{family}, whole run", "", share, "total"], rows, numeric=2)


def _ledger_row(run: RunData, name: str, whole: float) -> list[object]:
    total = run.series[name].total
    share = total / whole if whole else 0.0
    return [code(name), bar(share), percent(share), number(total)]
