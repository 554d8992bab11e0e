"""Milliseconds of a draw and an update of 512 rollouts out of a million.

    python tests/benchmarks/replay.py

The peer is numpy's weighted choice without replacement over the same weights: it follows the
same law and visits every weight for every draw.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from rlvr_platform.config.replay import PrioritisedReuse
from rlvr_platform.replay.experience import ExperienceReplay
from rlvr_platform.replay.sum_tree import SumTree

ROWS, SIBLINGS, VERSIONS = 512, 8, 1954
STORED = ROWS * VERSIONS
"""1,000,448 rollouts: a step of 512 for each of 1,954 weight versions."""

REPEATS = 101


def measure() -> dict[str, float]:
    """Medians over 101 runs, in milliseconds; `numpy_over_draw` is a ratio.

    draw, update: 512 of the sum tree's leaves. step_*: what a training step asks of the whole
    store, evicting 512 rollouts, drawing 512 and inserting 512 in 64 groups.
    """
    tree_draw, tree_update, choice = _tree()
    evict_and_draw, insert = _steps()
    return {
        "draw_ms": tree_draw,
        "update_ms": tree_update,
        "draw_and_update_ms": tree_draw + tree_update,
        "numpy_choice_ms": choice,
        "numpy_over_draw": choice / tree_draw,
        "step_evict_and_draw_ms": evict_and_draw,
        "step_insert_ms": insert,
    }


def _tree() -> tuple[float, float, float]:
    rng = np.random.default_rng(0)
    weights = np.sqrt(np.abs(rng.normal(size=STORED)) + 1e-6)
    tree, chances = SumTree(STORED), weights / weights.sum()
    tree.set(np.arange(STORED), weights)
    leaves = iter(rng.integers(0, STORED, (REPEATS, ROWS)))
    return (
        _median(lambda: tree.sample(ROWS, rng)),
        _median(lambda: tree.set(next(leaves), weights[:ROWS])),
        _median(lambda: rng.choice(STORED, ROWS, replace=False, p=chances)),
    )


def _steps() -> tuple[float, float]:
    config = PrioritisedReuse(max_age=VERSIONS - 1, capacity_rollouts=2 * STORED, start_step=1)
    replay, rng = ExperienceReplay(config, seed=0), np.random.default_rng(1)
    for birth in range(VERSIONS):
        _insert(replay, rng, birth)
    replay.draw(1, VERSIONS - 1, ROWS)
    taking, giving = [], []
    for version in range(VERSIONS, VERSIONS + REPEATS):
        taking.append(_timed(partial(_evict_and_draw, replay, version)))
        giving.append(_timed(partial(_insert, replay, rng, version)))
    return statistics.median(taking), statistics.median(giving)


def _evict_and_draw(replay: ExperienceReplay, version: int) -> None:
    evicted = replay.evict(version)
    draw = replay.draw(version, version, ROWS)
    if (evicted.age, draw.rows, replay.rollouts) != (ROWS, ROWS, STORED - ROWS):
        raise AssertionError(f"not the step this benchmark is about: {evicted}, {draw.rows} rows")


def _insert(replay: ExperienceReplay, rng: np.random.Generator, birth: int) -> None:
    siblings = np.arange(SIBLINGS, dtype=np.int32)
    births, tokens = np.full(SIBLINGS, birth, np.int32), np.full(SIBLINGS, 1000, np.int32)
    advantages = rng.normal(size=(ROWS // SIBLINGS, SIBLINGS)).astype(np.float32)
    priorities = np.abs(advantages, dtype=np.float64)
    for group, (advantage, priority) in enumerate(zip(advantages, priorities, strict=True)):
        group_id = birth * len(advantages) + group
        columns = (siblings, advantage, priority, births, tokens, tokens)
        replay.insert(None, 10_000, group_id, group, *columns)


def _median(run: Callable[[], object]) -> float:
    return statistics.median(_timed(run) for _ in range(REPEATS))


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    print(f"{ROWS} of {STORED} stored rollouts")
    for name, value in measure().items():
        print(f"  {name:24} {value:8.3f}")


if __name__ == "__main__":
    main()
