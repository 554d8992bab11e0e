"""What a metric means: looked up in the registry, never written twice."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from rlvr_platform.telemetry.names import METRICS, PATTERNS, Metric

_KNOWN = {metric.name: metric for metric in METRICS}
_NAMES = (*_KNOWN, *(pattern.name for pattern in PATTERNS))


def describe(name: str) -> Metric:
    """The metric `name` with its unit and meaning; both empty when it is not registered."""
    listed = _listed(name)
    return replace(listed, name=name) if listed else Metric(name, "", "")


def in_order(names: Iterable[str]) -> list[str]:
    """By place in the registry, then by name and the numbers in it; what is not listed last."""
    return sorted(names, key=_place)


@cache
def _listed(name: str) -> Metric | None:
    if name in _KNOWN:
        return _KNOWN[name]
    return next((p for p in PATTERNS if re.fullmatch(_expression(p.name), name)), None)


def _place(name: str) -> tuple[int, list[str], list[int]]:
    listed = _listed(name)
    first = _NAMES.index(listed.name) if listed else len(_NAMES)
    return first, re.split(r"[/\d]+", name), [int(digits) for digits in re.findall(r"\d+", name)]


def _expression(pattern: str) -> str:
    """In a pattern's name, a word in capitals stands for a name and k for a number."""
    return re.sub(r"\b[A-Z]+\b", "[^/]+", re.escape(pattern)).replace("@k", r"@\d+")
