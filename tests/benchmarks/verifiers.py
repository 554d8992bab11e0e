"""Throughput, overhead, hangs and memory of the verifier pool with the math verifier.

    python tests/benchmarks/verifiers.py [--verdicts 100000]

The peer is a loop over plain math-verify in this process, over the same completions: labelled
model outputs from ../shared/cases beside the repository where they are, else generated ones.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import math_verify

from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_math import MathVerifier
from rlvr_platform.types import Outcome, Verdict
from rlvr_platform.verifiers.base import Finding, Verifier
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool
from rlvr_platform.verifiers.registry import build_verifier

CASES = Path(__file__).parents[3] / "shared/cases"
FILES = ("gsm8k_labelled.jsonl", "math_labelled.jsonl")
ITEMS, WARM_UP, FEW = 1440, 240, 160
REPEATS, VERDICTS = 5, 5_000
WORKERS, DEADLINE_S = 2, 1.0
ENDLESS = GradeItem("never ends", "1")
HARD = [
    GradeItem(rf"The answer is \boxed{{{text}}}.", "7")
    for n in range(75)
    for text in (
        f"{n + 8}^{{{n + 8}^{{8^{{8}}}}}}",
        f"{n}7777777!",
        rf"\binom{{10^{{{n + 9}}}}}{{10^{{8}}}}",
        rf"{n + 3}^{{10^{{11}}}} \bmod 7",
    )
]
"""Mathematics that takes very long if it is worked out, no two alike."""


def build_endless(config: Any) -> Verifier:
    """The math verifier, but for completions that say how long they take."""
    return _Endless(build_verifier(config))


class _Endless:
    def __init__(self, inner: Verifier) -> None:
        self._inner = inner

    def verify(self, prediction: str, gold: str, options: Any) -> Finding:
        if prediction == ENDLESS.prediction:
            re.match(r"(a+)+$", "a" * 60 + "b")
        if options:
            end = time.process_time() + options["seconds"]
            while time.process_time() < end:
                pass
        return self._inner.verify(prediction, gold, {})


def completions() -> list[GradeItem]:
    """`ITEMS` ordinary completions of all the files, mixed."""
    paths = [CASES / name for name in FILES if (CASES / name).is_file()]
    rows = [json.loads(line) for path in paths for line in path.open(encoding="utf-8")]
    items = [GradeItem(row["prediction"], row["gold"]) for row in rows] or _generated()
    random.Random(0).shuffle(items)
    return items[:ITEMS]


def _generated() -> list[GradeItem]:
    """Short solutions that end in a box; every third one is wrong."""
    items = []
    for i in range(ITEMS):
        a, b, slip = 3 + i % 89, 2 + i % 13, int(i % 3 == 0)
        lines = (
            f"Each of the {b} boxes holds {a} pens, so there are {a} \\times {b} = {a * b} pens. "
        )
        given = (
            rf"Sharing them among {a + b} pupils gives $\frac{{{a * b + slip}}}{{{a + b}}}$ each, "
        )
        answer = rf"so the answer is $\boxed{{\frac{{{a * b + slip}}}{{{a + b}}}}}$."
        items.append(GradeItem(lines + given + answer, rf"\frac{{{a * b}}}{{{a + b}}}"))
    return items


def measure(verdicts: int = VERDICTS) -> dict[str, float]:
    """Medians of five runs; `*_over_*` and `*_slowdown` are ratios of what was measured here.

    Every run has a pool of its own, warmed up on other items, and meets each item once.
    A quarter of the items is bad in `hard_*` and `endless_*`, beside ordinary mathematics or
    beside items that take 1 and 10 ms. `slowdown` is the time until the healthy ones have their
    verdicts over the time without the bad ones; `slowdown_over_ordinary` over the time with
    ordinary items in place of the bad ones, which share the pool too.
    """
    items = completions()
    few = [*items[:WARM_UP], *items[WARM_UP:][:FEW]]
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    return {
        **_throughput(items),
        **_hangs("hard", items, HARD),
        **_hangs("endless", few, [ENDLESS]),
        **_hangs("endless_1_ms", _lasting(few, 0.001), [ENDLESS]),
        **_hangs("endless_10_ms", _lasting(few, 0.01), [ENDLESS]),
        **_memory(items[::3], verdicts),
    }


def _throughput(items: Sequence[GradeItem]) -> dict[str, float]:
    warm_up, given = items[:WARM_UP], items[WARM_UP:]
    _plain(warm_up[:20])
    runs = []
    for _ in range(REPEATS):
        plain = _timed(lambda: _plain(given))
        with _pool(1) as single, _pool(WORKERS) as pool:
            single.grade(warm_up), pool.grade(warm_up)
            one, both = (_timed(lambda p=p: p.grade(given)) for p in (single, pool))
        runs.append((plain, one, both))
    plain, one, both = (statistics.median(column) for column in zip(*runs, strict=True))
    return {
        "plain_ms_per_item": 1e3 * plain / len(given),
        "one_worker_ms_per_item": 1e3 * one / len(given),
        "two_workers_ms_per_item": 1e3 * both / len(given),
        "one_worker_over_plain_time": one / plain,
        "two_workers_over_plain_throughput": plain / both,
    }


def _plain(items: Sequence[GradeItem]) -> None:
    for item in items:
        math_verify.verify(math_verify.parse(item.gold), math_verify.parse(item.prediction))


def _pool(workers: int) -> VerifierPool:
    config = PoolConfig(workers=workers, deadline_s=DEADLINE_S)
    factory = "verifiers:build_endless"  # This file: its folder is on the path of its processes.
    return VerifierPool(VerifierConfig(use=MathVerifier(), pool=config), factory)


def _timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _lasting(items: Sequence[GradeItem], seconds: float) -> list[GradeItem]:
    """The same items, each with so much more work."""
    return [GradeItem(item.prediction, item.gold, {"seconds": seconds}) for item in items]


def _hangs(name: str, items: Sequence[GradeItem], bad: Sequence[GradeItem]) -> dict[str, float]:
    """Healthy items with another one after every three: what that costs the healthy ones."""
    warm_up, given = items[:WARM_UP], items[WARM_UP:]
    healthy, others = given[: len(given) * 3 // 4], given[len(given) * 3 // 4 :]
    mixes = (healthy, _interleaved(healthy, others), _interleaved(healthy, bad))
    times, misscored = [], 0
    for _ in range(REPEATS):
        runs = []
        for mix in mixes:
            with _pool(WORKERS) as pool:
                pool.grade(warm_up)
                runs.append(_finish(pool, mix, healthy))
        times.append([seconds for seconds, _ in runs])
        expected, _, found = (verdicts for _, verdicts in runs)
        misscored += sum(a.outcome is not b.outcome for a, b in zip(expected, found, strict=True))
    alone, ordinary, beside = (statistics.median(column) for column in zip(*times, strict=True))
    return {
        f"{name}_healthy_ms_per_item": 1e3 * beside / len(healthy),
        f"{name}_slowdown": beside / alone,
        f"{name}_slowdown_over_ordinary": beside / ordinary,
        f"{name}_misscored": float(misscored),
    }


def _interleaved(healthy: Sequence[GradeItem], others: Sequence[GradeItem]) -> list[GradeItem]:
    mixed: list[GradeItem] = []
    for i, item in enumerate(healthy):
        mixed += [item, *([others[i // 3 % len(others)]] if i % 3 == 2 else [])]
    return mixed


def _finish(
    pool: VerifierPool, given: Sequence[GradeItem], awaited: Sequence[GradeItem]
) -> tuple[float, list[Verdict]]:
    """Seconds until all of `awaited` have their verdicts, and these."""
    began = time.perf_counter()
    futures: list[tuple[GradeItem, Future[list[Verdict]]]] = [
        (item, pool.submit([item])) for item in given
    ]
    chosen = {id(item) for item in awaited}
    verdicts = [future.result()[0] for item, future in futures if id(item) in chosen]
    return time.perf_counter() - began, verdicts


def _memory(items: Sequence[GradeItem], verdicts: int) -> dict[str, float]:
    """Resident memory of this process and all below it, half-way and at the end."""
    batches = [list(items)] * max(2, verdicts // len(items))
    strays_before = set(_family(os.getpid()))
    with _pool(WORKERS) as pool:
        sizes = []
        for batch in batches:
            outcomes = {v.outcome for v in pool.grade(batch)}
            if not outcomes <= {Outcome.CORRECT, Outcome.WRONG, Outcome.NO_ANSWER}:
                raise AssertionError(f"not the verdicts this benchmark is about: {outcomes}")
            sizes.append(sum(map(_resident_mib, [os.getpid(), *_family(os.getpid())])))
    half = len(sizes) // 2
    return {
        "verdicts": float(len(batches) * len(items)),
        "memory_first_half_mib": max(sizes[:half]),
        "memory_second_half_mib": max(sizes[half:]),
        "stray_processes": float(len(set(_family(os.getpid())) - strays_before)),
    }


def _family(pid: int) -> list[int]:
    """All processes below `pid`."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    below = [int(child) for path in lists for child in path.read_text().split()]
    return [*below, *(deeper for child in below for deeper in _family(child))]


def _resident_mib(pid: int) -> float:
    """Resident memory in MiB, not counting what maps files; 0 when the process has ended."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except FileNotFoundError:
        return 0.0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verdicts", type=int, default=VERDICTS, help="for the memory")
    for name, value in measure(parser.parse_args().verdicts).items():
        print(f"  {name:36} {value:10.3f}")


if __name__ == "__main__":
    main()
