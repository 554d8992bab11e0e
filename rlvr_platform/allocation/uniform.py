"""The same number of rollouts for every prompt."""

import numpy as np

from rlvr_platform.errors import ConfigError


def uniform(prompts: int, budget: int) -> np.ndarray:
    """int64 [B] counts that sum to `budget` and differ by at most one, earlier ones larger.

    Raises ConfigError when a prompt would get none.
    """
    if not 1 <= prompts <= budget:
        raise ConfigError(
            f"{budget} rollouts for {prompts} prompts",
            "at least one rollout for each of at least one prompt",
            "raise rollout.rollouts_per_prompt",
        )
    counts = np.full(prompts, budget // prompts, dtype=np.int64)
    counts[: budget % prompts] += 1
    return counts
