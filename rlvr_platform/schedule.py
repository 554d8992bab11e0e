"""The learning rate, counted in optimizer steps."""

import math

from rlvr_platform.config.learner import OptimizerConfig


def learning_rate(step: int, total: int, config: OptimizerConfig) -> float:
    """Learning rate of optimizer step `step` (from 0) out of `total`.

    Warm-up is linear and its first step is already above 0; decay reaches 0 after the last step.
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    factor = {
        "constant": 1.0,
        "linear": 1.0 - done,
        "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
    }[config.schedule]
    return peak * factor
