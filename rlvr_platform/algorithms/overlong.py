"""Completions near or at the token limit (DAPO, arXiv 2503.14476, section 3.4)."""

import numpy as np

from rlvr_platform.config.algorithm import AnyOverlong, OverlongMasked, OverlongPenalised
from rlvr_platform.types import Finish


def shaped_rewards(
    rewards: np.ndarray, lengths: np.ndarray, max_length: int, overlong: AnyOverlong
) -> np.ndarray:
    """Rewards float64 [G] that advantages are made from; NaN stays NaN.

    lengths: int [G], completion tokens. max_length: rollout.max_new_tokens. The rewards
    themselves unless `overlong` is a penalty, of which they lose `weight` times its share.
    """
    if isinstance(overlong, OverlongPenalised):
        return rewards + overlong.weight * overlong_penalty(lengths, max_length, overlong.cache)
    return rewards


def masked_rollouts(finish: np.ndarray, overlong: AnyOverlong) -> np.ndarray:
    """bool [G]: which rollouts leave the loss because the limit cut them.

    finish: uint8 [G], values of `Finish`. They stay in the statistics of their group.
    """
    return (finish == Finish.LENGTH) & isinstance(overlong, OverlongMasked)


def overlong_penalty(lengths: np.ndarray, max_length: int, cache: int) -> np.ndarray:
    """Soft overlong punishment, float64 [G] in [-1, 0], of completions of `lengths` tokens [G].

    0 up to max_length - cache, -1 from max_length, a line between (arXiv 2503.14476, eq. 13).
    """
    if not 0 < cache <= max_length:
        raise ValueError(f"cache must be in 1..{max_length}, got {cache}")
    return np.clip((max_length - cache - lengths) / cache, -1.0, 0.0)
