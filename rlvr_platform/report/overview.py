"""The head of a report: what the run is, how it ended, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlvr_platform.report.figures import live_view
from rlvr_platform.report.html import Html, el
from rlvr_platform.report.numbers import number, seconds
from rlvr_platform.report.run_data import Evaluation, RunData, Status, evaluations
from rlvr_platform.report.sections import PROBE
from rlvr_platform.telemetry.progress import Progress, percent


def header(run: RunData, how: Status) -> Html:
    """Title, status and where the run is."""
    started = run.manifest.get("started_at")
    return el(
        "header",
        el("h1", run.name),
        el("p", how.text, class_=f"status {how.state}"),
        el("p", *([f"started {started}, "] if started else []), f"folder {run.folder.path}"),
    )


def headline(run: RunData) -> Html:
    """Held-out accuracy before and after, then the run in a few numbers."""
    accuracy = [_accuracy(suite, found) for suite, found in evaluations(run).items()]
    return el("div", *accuracy, *_tiles(run), class_="tiles")


def _accuracy(suite: str, found: Sequence[Evaluation]) -> Html:
    before, after = found[0], found[-1]
    if before is after:
        return _tile(
            f"held out: {suite}",
            percent(after.estimate.value),
            f"95 % interval {_interval(after)}, measured at step {after.step} only",
        )
    points = (after.estimate.value - before.estimate.value) * 100
    return _tile(
        f"held out: {suite}",
        f"{percent(before.estimate.value)} → {percent(after.estimate.value)}",
        f"{points:+.1f} points from step {before.step} to step {after.step}; 95 % intervals "
        f"{_interval(before)} and {_interval(after)}",
    )


def _interval(measured: Evaluation) -> str:
    low, high = measured.estimate.low * 100, measured.estimate.high * 100
    return f"{low:.1f} to {high:.1f}"


def _tiles(run: RunData) -> list[Html]:
    totals = {name: data.total for name, data in run.series.items()}
    whole = live_view(totals)
    tiles = [_reward(run), _signal(whole, totals), _waste(totals), _time(run, whole), _proof(run)]
    return [tile for tile in tiles if tile]


def _reward(run: RunData) -> Html:
    data = run.series.get("reward/mean")
    if data is None:
        return Html()
    width = max(1, min(10, len(data.values) // 2))
    before, after = data.values[:width].mean(), data.values[-width:].mean()
    what = (
        f"mean of the first and of the last {width} steps" if width > 1 else "first and last step"
    )
    return _tile("reward/mean", f"{number(before)} → {number(after)}", what)


def _signal(whole: Progress, totals: Mapping[str, float]) -> Html:
    if whole.learning_share is None:
        return Html()
    words = f"of {number(totals['rollouts/generated'])} rollouts generated carried gradient"
    return _tile("rows with signal", percent(whole.learning_share), words)


def _waste(totals: Mapping[str, float]) -> Html:
    wasted, generated = totals.get("tokens/wasted"), totals.get("tokens/generated")
    if wasted is None or not generated:
        return Html()
    words = f"{number(wasted)} of {number(generated)} tokens generated"
    return _tile("tokens wasted", percent(wasted / generated), words)


def _time(run: RunData, whole: Progress) -> Html:
    if not whole.step_seconds:
        return Html()
    words = f"{seconds(whole.step_seconds / len(run.series['time/step'].values))} a step"
    if whole.tokens_per_second is not None:
        words += f", {number(round(whole.tokens_per_second))} tokens generated a second"
    return _tile("time in steps", seconds(whole.step_seconds), words)


def _proof(run: RunData) -> Html:
    data = run.series.get(PROBE)
    if data is None:
        return Html()
    words = f"largest probe difference, engines against learner, in {len(data.values):,} syncs"
    return _tile("sync proof", f"{number(data.values.max())} nats", words)


def _tile(title: str, value: str, words: str) -> Html:
    return el(
        "div", el("h3", title), el("p", value, class_="value"), el("p", words, class_="quiet")
    )
