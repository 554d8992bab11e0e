"""From metrics to figures: what shares a chart, what is stacked, and what stands below it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvr_platform.progress import StepTimer
from rlvr_platform.report.charts import Line, line_chart, look, stacked_chart
from rlvr_platform.report.html import Html, el
from rlvr_platform.report.meaning import describe, in_order
from rlvr_platform.report.numbers import number
from rlvr_platform.report.run_data import Evaluation, RunData, evaluations
from rlvr_platform.report.series import Points, Series, aligned, points, series
from rlvr_platform.telemetry.names import Metric
from rlvr_platform.telemetry.progress import Progress, ProgressTracker

_TOGETHER = ("acr/", "allocation/", "eval/", "lag/", "replay/", "tokens/")
"""Metrics of one of these families and of one unit share a chart; all others stand alone."""
_TOTALS = {
    "allocation/prompts": "",
    "rollouts": "rollouts/generated",
    "time": "time/step",
    "verdict": "",
}
"""Families that are stacked, and the metric drawn over the stack."""
_LIVE = (
    *("step", "time/step", "tokens/generated"),
    *("rollouts/generated", "rollouts/trained", "rollouts/rescued"),
)
"""What of a record the live view's numbers used here are made from."""
_OUTSIDE = frozenset({"rollouts/replayed", *(f"time/{phase}" for phase in StepTimer.ASIDE)})
"""Not a part of what is drawn over their family's stack."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric and its values: recorded, or worked out from recorded ones."""

    metric: Metric
    series: Series
    interval: Points | None = None
    """The points to draw where they are known better than from `series`."""

    @property
    def line(self) -> Line:
        return Line(self.metric.name, self.interval or points(self.series))


def figures(run: RunData, names: Iterable[str]) -> list[Html]:
    """One figure for each family or metric among `names`; each name is in exactly one."""
    measured = evaluations(run)
    charts: dict[tuple[str, str], list[str]] = {}
    for name in in_order(names):
        charts.setdefault((_chart_of(name), describe(name).unit), []).append(name)
    return [_drawn(run, title, members, measured) for (title, _), members in charts.items()]


def line_figure(run: RunData, title: str, curves: Sequence[Curve]) -> Html:
    """Curves of one unit over the steps, with first, last, least and greatest value."""
    drawing = line_chart([curve.line for curve in curves], _steps(run), title)
    looks = [look(i, len(curves)) for i in range(len(curves))]
    entries = [(how, c.metric, _extent(c.series)) for how, c in zip(looks, curves, strict=True)]
    return _figure(title, curves[0].metric.unit, drawing, _legend(entries))


def worked_out(run: RunData) -> dict[str, Curve]:
    """What the live view shows and metrics.jsonl does not have: signal and throughput."""
    rows = [live_view(record) for record in run.records]
    signal = [(r.step, r.learning_share) for r in rows if r.learning_share is not None]
    pace = [(r.step, r.tokens_per_second) for r in rows if r.tokens_per_second is not None]
    meanings = {
        "rows with signal": Metric(
            "rows with signal", "share", "The step's own rollouts that carried gradient in it."
        ),
        "throughput": Metric(
            "throughput", "tokens/s", "tokens/generated divided by time/step: end to end."
        ),
    }
    pairs = zip(meanings.items(), (signal, pace), strict=True)
    return {
        name: Curve(metric, series([s for s, _ in found], [v for _, v in found]))
        for (name, metric), found in pairs
        if found
    }


def live_view(record: Mapping[str, float]) -> Progress:
    """Signal and throughput of one record; of a whole run, when it holds the sums."""
    known = {name: record[name] for name in _LIVE if record.get(name) is not None}
    return ProgressTracker(1).update({"step": 1, **known})


def phases(names: Iterable[str]) -> list[str]:
    """The time/* metrics that are parts of a step."""
    return [n for n in in_order(names) if _chart_of(n) == "time" and n != _TOTALS["time"]]


def _chart_of(name: str) -> str:
    """Title of the chart that shows `name`; a family of `_TOTALS` is stacked."""
    if name.startswith("time/idle_"):
        return "time/idle"
    family = name.partition("@")[0] if "@" in name else name.partition("/")[0]
    if family != name and family in _TOTALS and name not in _OUTSIDE:
        return family
    return name.rpartition("/")[0] if name.startswith(_TOGETHER) else name


def _drawn(
    run: RunData, title: str, names: Sequence[str], measured: Mapping[str, Sequence[Evaluation]]
) -> Html:
    if title in _TOTALS:
        return _stack(run, title, names)
    curves = [_curve(run, name, measured) for name in names]
    return line_figure(run, title if len(names) > 1 else names[0], curves)


def _curve(run: RunData, name: str, measured: Mapping[str, Sequence[Evaluation]]) -> Curve:
    data = run.series[name]
    suite = re.fullmatch(r"eval/([^/]+)/(avg@\d+)", name)
    found = measured.get(f"{suite[1]} {suite[2]}", ()) if suite else ()
    return Curve(describe(name), data, _interval(data, found) if found else None)


def _interval(data: Series, found: Sequence[Evaluation]) -> Points:
    """Values with the intervals of their evaluations."""
    by_step = {one.step: one.estimate for one in found}
    pairs = list(zip(data.steps.tolist(), data.values.tolist(), strict=True))
    low = [by_step[step].low if step in by_step else value for step, value in pairs]
    high = [by_step[step].high if step in by_step else value for step, value in pairs]
    exact = Points(data.steps, data.steps, data.values, data.values, data.values)
    return replace(exact, low=np.array(low), high=np.array(high))


def _stack(run: RunData, family: str, names: Sequence[str]) -> Html:
    total = _TOTALS[family]
    layers = [name for name in names if name != total]
    over = [total] if total in names else []
    columns = aligned([run.series[name] for name in (*layers, *over)])
    lines = [Line(n, points(c)) for n, c in zip((*layers, *over), columns, strict=True)]
    drawing = stacked_chart(lines[: len(layers)], lines[len(layers) :], _steps(run), family)
    looks = [
        *(look(i, len(layers)) for i in range(len(layers))),
        *({"class_": "over"} for _ in over),
    ]
    entries = [
        (how, describe(name), f"total {number(run.series[name].total)}")
        for how, name in zip(looks, (*layers, *over), strict=True)
    ]
    return _figure(family, describe(names[0]).unit, drawing, _legend(entries))


def _figure(title: str, unit: str, drawing: Html, legend: Html) -> Html:
    heading = el("h3", f"{title} ({unit})" if unit not in ("", title) else title)
    return el("figure", heading, drawing, el("figcaption", legend))


def _legend(entries: Sequence[tuple[dict[str, str], Metric, str]]) -> Html:
    """Swatch, name, numbers and meaning of each; metrics of one pattern share their meaning."""
    told: set[str] = set()
    lines = []
    for how, metric, numbers in entries:
        meaning = metric.meaning or "Not in this version's registry of metrics."
        words = el("span", meaning, class_="quiet") if meaning not in told else ""
        told.add(meaning)
        swatch = el("span", el("span", class_="swatch"), **how)
        lines.append(el("li", swatch, el("code", metric.name), f" {numbers}", words))
    return el("ul", *lines)


def _extent(data: Series) -> str:
    values = data.values
    return (
        f"first {number(values[0])}, last {number(values[-1])}, "
        f"least {number(values.min())}, greatest {number(values.max())}"
    )


def _steps(run: RunData) -> tuple[int, int]:
    return int(run.records[0]["step"]), run.last_step
