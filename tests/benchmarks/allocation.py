"""How long an allocation takes: closed form against cvxpy, 1,024 prompts, 8 rollouts each.

    python tests/benchmarks/allocation.py

Both solve the same relaxation; the closed form also rounds. Prints medians, their ratio and how
far the two optima are apart.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from rlvr_platform.allocation.belief import certain
from rlvr_platform.allocation.convex import relaxed_optimum
from rlvr_platform.allocation.objectives import OBJECTIVES, ObjectiveName
from rlvr_platform.allocation.solver import closed_form, continuous_optimum, greedy

PROMPTS, LOWER, UPPER = 1024, 4, 16
RUNS = 7
NAMES: tuple[ObjectiveName, ...] = ("dr_grpo", "rloo")


def measure() -> dict[str, float]:
    """Per objective: seconds of closed form, greedy and cvxpy, ratio and relative gap."""
    belief = certain(np.random.default_rng(0).random(PROMPTS))
    results: dict[str, float] = {}
    for name in NAMES:
        problem = (belief, 8 * PROMPTS, LOWER, UPPER, name)
        value = OBJECTIVES[name].value
        relaxed_optimum(*problem)
        convex = _median_seconds(lambda problem=problem: relaxed_optimum(*problem), RUNS)
        fast = _median_seconds(lambda problem=problem: closed_form(*problem), 5 * RUNS)
        ours, theirs = continuous_optimum(*problem), relaxed_optimum(*problem)
        results |= {
            f"{name}/closed_form_s": fast,
            f"{name}/greedy_s": _median_seconds(lambda problem=problem: greedy(*problem), 1),
            f"{name}/cvxpy_s": convex,
            f"{name}/cvxpy_over_closed_form": convex / fast,
            f"{name}/relative_gap": abs(value(belief, ours) / value(belief, theirs) - 1),
        }
    return results


def main() -> None:
    """Print a line a number."""
    for name, value in measure().items():
        print(f"{name:<32} {value:.3g}")


def _median_seconds(call: Callable[[], object], runs: int) -> float:
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
