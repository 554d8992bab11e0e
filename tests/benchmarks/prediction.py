"""Time and memory of VIP's prediction and allocation on a data set of 17,000 prompts.

    python tests/benchmarks/prediction.py

A decision is observe, predict and solve for 512 prompts with embeddings of 384 numbers, on one
thread. Run with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np
import torch

import rlvr_platform.allocation.gp  # noqa: F401  Its import is not part of a predictor's memory.
from rlvr_platform.allocation.vip import VipAllocator
from rlvr_platform.config.allocator import (
    GpConfig,
    MovingAverageConfig,
    PaperGp,
    PredictorConfig,
    RidgeConfig,
    VipConfig,
)

PROMPTS, DIMENSION, BATCH, BUDGET = 17_000, 384, 512, 512 * 8
STEPS, WARM_UP = 12, 3

PREDICTORS: dict[str, PredictorConfig] = {
    "robust": GpConfig(),
    "paper": GpConfig(mode=PaperGp()),
    "ridge": RidgeConfig(),
    "moving_average": MovingAverageConfig(),
}


def measure() -> dict[str, float]:
    """Medians in ms of observe, of predict and solve, and of both; peak memory in MiB."""
    torch.set_num_threads(1)
    embeddings = np.random.default_rng(0).standard_normal((PROMPTS, DIMENSION), dtype=np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    result: dict[str, float] = {}
    before = _peak_mib()
    for name, predictor in PREDICTORS.items():
        config = VipConfig(predictor=predictor)
        vip = VipAllocator(config, embeddings, ("train",) * PROMPTS)
        result |= {f"{name}/{part}": value for part, value in _steps(vip).items()}
        result[f"{name}/peak_mib"] = max(_peak_mib() - before, 0.0)
    result["square_matrix_mib"] = PROMPTS**2 * 8 / 2**20
    return result


def _steps(vip: VipAllocator) -> dict[str, float]:
    """The last steps draw prompts seen before, when the robust mode knows most."""
    draw = np.random.default_rng(1)
    epoch = draw.permutation(PROMPTS)[: BATCH * STEPS // 2].reshape(-1, BATCH)
    observe, decide = [], []
    for prompts in np.concatenate((epoch, epoch[:, ::-1])):
        start = time.perf_counter()
        counts = vip.allocate(prompts, BUDGET).counts
        decide.append(time.perf_counter() - start)
        successes = draw.binomial(counts, draw.uniform(size=BATCH)).astype(float)
        start = time.perf_counter()
        vip.observe(prompts, successes, counts)
        observe.append(time.perf_counter() - start)
    both = [o + d for o, d in zip(observe, decide, strict=True)]
    timed = {"observe_ms": observe, "predict_and_solve_ms": decide, "decision_ms": both}
    return {name: 1e3 * statistics.median(values[WARM_UP:]) for name, values in timed.items()}


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    result = measure()
    columns = ("observe_ms", "predict_and_solve_ms", "decision_ms", "peak_mib")
    print(f"{'':16}" + "".join(f"{column:>22}" for column in columns))
    for name in PREDICTORS:
        print(f"{name:16}" + "".join(f"{result[f'{name}/{c}']:22.1f}" for c in columns))
    print("peak_mib counts from before the first predictor and grows down the table;")
    print(f"one matrix over all prompts would be {result['square_matrix_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
