"""Seconds to select 16 of 64 rollouts in 10,000 groups, against one group at a time in Python.

    python tests/benchmarks/downsampling.py

The other side does the same work, sort and prefix sums included, and takes the first of equals.
Medians of several runs, the two sides alternating.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from rlvr_platform.algorithms.downsampling import downsample, subset_variance

GROUPS, SIZE, KEEP, RUNS = 10_000, 64, 16, 5


def rewards_of(kind: str) -> list[np.ndarray]:
    """10,000 groups of 64 rewards: binary with a success probability per group, or real."""
    generator = np.random.default_rng(0)
    uniform = generator.random((GROUPS, SIZE))
    if kind == "real":
        return list(uniform)
    return list((uniform < generator.random((GROUPS, 1))).astype(np.float64))


def select_in_python(rewards: Sequence[float], keep: int) -> list[int]:
    """Max-variance selection of one group with lists and prefix sums."""
    mean = sum(rewards) / len(rewards)
    order = sorted(range(len(rewards)), key=rewards.__getitem__)
    centred = [rewards[i] - mean for i in order]
    tail = centred[: -keep - 1 : -1]
    low, high = ([0.0, *accumulate(part)] for part in (centred[:keep], tail))
    low2, high2 = ([0.0, *accumulate(r * r for r in part)] for part in (centred[:keep], tail))
    variance = [
        (low2[keep - k] + high2[k]) / keep - ((low[keep - k] + high[k]) / keep) ** 2
        for k in range(keep + 1)
    ]
    k = max(range(keep + 1), key=variance.__getitem__)
    return sorted(order[: keep - k] + order[len(order) - k :])


def measure() -> dict[str, float]:
    """Median seconds of both sides and their ratio, on binary and on real-valued rewards.

    Raises AssertionError when the two sides do not reach the same variance.
    """
    return {
        f"{kind}/{name}": value
        for kind in ("binary", "real")
        for name, value in compare(rewards_of(kind)).items()
    }


def compare(rewards: Sequence[np.ndarray]) -> dict[str, float]:
    """Median seconds of both sides on these groups; the sides alternate."""
    ids = np.arange(len(rewards))
    lists = [group.tolist() for group in rewards]
    ours, theirs = [], []
    for _ in range(RUNS):
        seconds, kept = _timed(lambda: downsample(rewards, KEEP, "max_variance", 0, ids))
        ours.append(seconds)
        seconds, plain = _timed(lambda: [select_in_python(group, KEEP) for group in lists])
        theirs.append(seconds)
    _assert_equal_variance(rewards, kept, plain)
    vectorised, python = statistics.median(ours), statistics.median(theirs)
    return {"vectorised_s": vectorised, "python_s": python, "ratio": python / vectorised}


def _timed(work: Callable[[], list]) -> tuple[float, list]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _assert_equal_variance(
    rewards: Sequence[np.ndarray], kept: Sequence[np.ndarray], plain: Sequence[list[int]]
) -> None:
    for group, ours, theirs in zip(rewards, kept, plain, strict=True):
        gap = subset_variance(group, ours) - subset_variance(group, np.array(theirs))
        assert abs(gap) < 1e-12, gap


def main() -> None:
    print(f"{GROUPS:,} groups of {SIZE} -> {KEEP}, medians of {RUNS} runs")
    for name, value in measure().items():
        print(f"{name:24} {value:8.3f}")


if __name__ == "__main__":
    main()
