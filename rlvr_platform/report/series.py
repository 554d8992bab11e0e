"""Metrics as columns, and columns thinned out so that 10,000 steps fit a chart.

Axes: N steps that have the metric, K points of a chart, L layers of a stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr_platform.errors import InputError

MOST_POINTS = 120
"""Points a curve is thinned out to: about one for every four pixels."""
_BEYOND = 1e300
_NUMBERS = {int, float, type(None)}


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One metric over the steps that have it."""

    steps: np.ndarray
    """int64 [N], never decreasing."""
    values: np.ndarray
    """float64 [N]."""

    @property
    def total(self) -> float:
        return float(self.values.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A series as drawn: each point stands for the steps first..last."""

    first: np.ndarray
    """int64 [K]."""
    last: np.ndarray
    """int64 [K]."""
    mean: np.ndarray
    """float64 [K]."""
    low: np.ndarray
    """float64 [K], the least value that the point stands for, or the foot of its interval."""
    high: np.ndarray
    """float64 [K], likewise the greatest."""


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, Series]:
    """Every metric but `step` as a series that is not empty, in order of first appearance.

    Raises InputError for a value that is not a number, or a record without step.
    """
    names = dict.fromkeys(name for record in records for name in record)
    found = {name: [record.get(name) for record in records] for name in names}
    for name, values in found.items():
        if not set(map(type, values)) <= _NUMBERS:
            raise InputError(f"metrics.jsonl holds a {name} that is not a number", "numbers only")
    steps = found.pop("step", [None] * len(records))
    lost = next((number for number, s in enumerate(steps, 1) if type(s) is not int), None)
    if lost is not None:
        raise InputError(f"line {lost} of metrics.jsonl has no step", "a whole number in each line")
    made = {name: series(steps, values) for name, values in found.items()}
    return {name: data for name, data in made.items() if len(data.steps)}


def series(steps: Sequence[Any], values: Sequence[Any]) -> Series:
    """Entries that are None, NaN, infinite or beyond any axis are left out."""
    known = np.array(values, np.float64)
    drawable = np.abs(known) < _BEYOND
    return Series(np.array(steps, np.int64)[drawable], known[drawable])


def points(data: Series, most: int = MOST_POINTS) -> Points:
    """At most `most` points, each with mean, least and greatest of equally many steps."""
    steps, values = data.steps, data.values
    if len(steps) <= most:
        return Points(steps, steps, values, values, values)
    width = -(-(int(steps[-1]) - int(steps[0]) + 1) // most)
    starts = np.flatnonzero(np.diff((steps - steps[0]) // width, prepend=-1))
    ends = np.append(starts[1:], len(steps))
    return Points(
        first=steps[starts],
        last=steps[ends - 1],
        mean=np.add.reduceat(values, starts) / (ends - starts),
        low=np.minimum.reduceat(values, starts),
        high=np.maximum.reduceat(values, starts),
    )


def aligned(many: Sequence[Series]) -> list[Series]:
    """The same series over the union of their steps; a step without the metric counts 0."""
    steps = np.unique(np.concatenate([one.steps for one in many]))
    filled = []
    for one in many:
        values = np.zeros(len(steps))
        values[np.searchsorted(steps, one.steps)] = one.values
        filled.append(Series(steps, values))
    return filled
