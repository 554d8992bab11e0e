"""Line charts and stacked charts as inline SVG; colours come from the page's style sheet.

A pointer that rests on a chart shows the numbers there: each point has a native tooltip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.report.html import Html, el, join
from rlvr_platform.report.numbers import number, short
from rlvr_platform.report.series import Points

WIDTH, HEIGHT = 520, 190
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 8, 22
COLOURS = 8
"""Classes c0..c7 of the style sheet."""
_MARKED = 24
"""Up to this many points, each is marked: a line through a few says too much."""
_REACH = 3.0
"""Pixels around a point within which the pointer finds it."""
_TINY = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    label: str
    points: Points


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map of low..high to the pixels start..end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def line_chart(lines: Sequence[Line], steps: tuple[int, int], label: str) -> Html:
    """Means as lines, each in a band from its lows to its highs.

    `steps`: first and last step of the horizontal axis; `label`: what the chart shows, for
    readers who cannot see it. Lines without points are left out.
    """
    drawn = [line for line in lines if len(line.points.mean)]
    if not drawn:
        return empty_chart(label)
    low = min(float(line.points.low.min()) for line in drawn)
    high = max(float(line.points.high.max()) for line in drawn)
    x, y = _horizontal(steps), _vertical(low, high)
    curves = [
        el("g", *_curve(line.points, x, y), **look(lines.index(line), len(lines))) for line in drawn
    ]
    return _svg(label, x, y, [*curves, _tips(drawn, x)])


def stacked_chart(
    layers: Sequence[Line], over: Sequence[Line], steps: tuple[int, int], label: str
) -> Html:
    """Layers on top of each other, the first at the bottom, and lines that are not stacked.

    All layers have the same points; their values are at least 0.
    """
    if not layers or not len(layers[0].points.mean):
        return empty_chart(label)
    edges = np.cumsum([np.zeros(len(layers[0].points.mean)), *(m.points.mean for m in layers)], 0)
    high = max(float(edges[-1].max()), *(float(line.points.mean.max()) for line in over), 0.0)
    x, y = _horizontal(steps), _vertical(0.0, high)
    areas = [
        el("g", _area(layer.points, edges[i], edges[i + 1], x, y), **look(i, len(layers)))
        for i, layer in enumerate(layers)
    ]
    lines = [_path(_flat(line.points, line.points.mean, x, y), "over") for line in over]
    return _svg(label, x, y, [*areas, *lines, _tips([*layers, *over], x)])


def empty_chart(label: str) -> Html:
    return el("p", f"{label}: nothing recorded", class_="quiet")


def look(index: int, count: int) -> dict[str, str]:
    """Attributes by which line or layer `index` of `count` is known, also in a legend.

    Each has a colour of its own; when there are not enough of them, a shade of one.
    """
    if count <= COLOURS:
        return {"class_": f"c{index}"}
    return {"class_": "c0", "style": f"opacity:{0.15 + 0.85 * index / (count - 1):.2f}"}


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers within low..high, at most `most` + 1 of them; low < high."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    size = next(m * power for m in (1, 2, 2.5, 5, 10, 20) if m * power >= raw)
    first, last = math.ceil(low / size - 1e-9), math.floor(high / size + 1e-9)
    return [i * size for i in range(first, last + 1)]


def _horizontal(steps: tuple[int, int]) -> Scale:
    return Scale(steps[0] - 0.5, steps[1] + 0.5, LEFT, WIDTH - RIGHT)


def _vertical(low: float, high: float) -> Scale:
    """The range of the values with some air; from 0 where that costs less than half of it."""
    if high - low < max(_TINY, 1e-12 * max(abs(low), abs(high))):
        air = abs(low) / 2 if abs(low) > _TINY else 1.0
    else:
        air = (high - low) * 0.05
    foot = 0.0 if 0 <= low <= high / 2 else low - air
    return Scale(foot, high + air, HEIGHT - BOTTOM, TOP)


def _svg(label: str, x: Scale, y: Scale, content: Iterable[Html]) -> Html:
    box = f"0 0 {WIDTH} {HEIGHT}"
    return el("svg", *_axes(x, y), *content, viewBox=box, role="img", aria_label=label)


def _axes(x: Scale, y: Scale) -> list[Html]:
    right, foot = WIDTH - RIGHT, HEIGHT - BOTTOM
    rows = ticks(y.low, y.high, 4)
    lines = "".join(f"M{LEFT} {y(value):.1f}H{right}" for value in rows)
    columns = [value for value in ticks(x.low, x.high) if value == round(value)]
    return [
        el("path", d=lines, class_="grid"),
        el("path", d=f"M{LEFT} {foot}H{right}", class_="axis"),
        *(_text(LEFT - 6, y(value) + 4, short(value), "end") for value in rows),
        *(_text(x(value), HEIGHT - 6, short(value), "middle") for value in columns),
    ]


def _text(x: float, y: float, words: str, anchor: str) -> Html:
    return el("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _curve(points: Points, x: Scale, y: Scale) -> list[Html]:
    parts = []
    if (points.high > points.low).any():
        there, back = _open(points, points.high, x, y), _open(points, points.low, x, y)
        outline = f"M{'L'.join([*there, *reversed(back)])}Z"
        parts.append(el("path", d=outline, class_="band"))
    line = _open(points, points.mean, x, y)
    parts.append(_path(line, "line"))
    if len(line) <= _MARKED:
        parts += [_marker(*place.split(" ")) for place in line]
    return parts


def _open(points: Points, values: np.ndarray, x: Scale, y: Scale) -> list[str]:
    """One "x y" for each point."""
    middle = (points.first + points.last) / 2
    return [f"{x(m):.1f} {y(v):.1f}" for m, v in zip(middle, values.tolist(), strict=True)]


def _path(places: Sequence[str], kind: str) -> Html:
    return el("path", d=f"M{'L'.join(places)}", class_=kind)


def _marker(x: str, y: str) -> Html:
    return el("circle", cx=x, cy=y, r=3, class_="mark")


def _area(points: Points, foot: np.ndarray, top: np.ndarray, x: Scale, y: Scale) -> Html:
    there, back = _flat(points, top, x, y), _flat(points, foot, x, y)
    return el("path", d=f"M{'L'.join([*there, *reversed(back)])}Z", class_="area")


def _flat(points: Points, values: np.ndarray, x: Scale, y: Scale) -> list[str]:
    """Two "x y" for each point, level over its steps: a single step is seen as well."""
    edges = zip(points.first - 0.5, points.last + 0.5, values.tolist(), strict=True)
    return [f"{x(side):.1f} {y(v):.1f}" for left, right, v in edges for side in (left, right)]


def _tips(lines: Sequence[Line], x: Scale) -> Html:
    """An invisible column over each point, with its numbers."""
    words: dict[tuple[int, int], list[str]] = {}
    for line in lines:
        text = _reader(line)
        places = zip(line.points.first.tolist(), line.points.last.tolist(), strict=True)
        for k, place in enumerate(places):
            words.setdefault(place, []).append(text(k))
    return join(_tip(first, last, found, x) for (first, last), found in words.items())


def _tip(first: int, last: int, words: Sequence[str], x: Scale) -> Html:
    middle, reach = x((first + last) / 2), max(_REACH, (x(last + 0.5) - x(first - 0.5)) / 2)
    left, right = max(LEFT, middle - reach), min(WIDTH - RIGHT, middle + reach)
    head = f"step {first}" if first == last else f"steps {first} to {last}"
    shape = f"M{left:.1f} {TOP}H{right:.1f}V{HEIGHT - BOTTOM}H{left:.1f}Z"
    return el("path", el("title", "\n".join([head, *words])), d=shape, class_="tip")


def _reader(line: Line) -> Callable[[int], str]:
    """What the tooltip says of point k of `line`."""
    means, lows, highs = (v.tolist() for v in (line.points.mean, line.points.low, line.points.high))

    def read(k: int) -> str:
        text = f"{line.label} {number(means[k])}"
        if highs[k] > lows[k]:
            text += f" ({number(lows[k])} to {number(highs[k])})"
        return text

    return read
