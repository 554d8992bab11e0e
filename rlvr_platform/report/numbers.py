"""How numbers are written in a report."""

from __future__ import annotations

from rlvr_platform.telemetry.progress import duration


def number(value: float) -> str:
    """Four significant digits; whole numbers and thousands in full."""
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}"
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def short(value: float) -> str:
    """For an axis: as `number`, with k, M or G from 10,000 on."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(size, 1e4):
            return f"{value / size:.6g}{letter}"
    return number(float(f"{value:.12g}"))


def seconds(value: float) -> str:
    """As 12.3 s, 12 min 30 s, or 3 h 05 min."""
    return f"{number(value)} s" if value < 60 else duration(value)


def gibibytes(count: float) -> str:
    return f"{count / 2**30:.2f} GiB"
