"""Advantage collapse: groups whose rewards are all equal teach nothing (arXiv 2605.21125)."""

from collections.abc import Sequence

import numpy as np

from rlvr_platform.algorithms.advantages import has_signal


def collapsed(rewards: Sequence[np.ndarray]) -> np.ndarray:
    """bool [B]: which groups carry no signal; `rewards` holds one float64 [G] per group."""
    return np.array([not has_signal(group) for group in rewards], dtype=bool)


def collapse_rate_by_group(rewards: Sequence[np.ndarray]) -> float:
    """ACR: share of the groups that are collapsed. Groups without any reward are not counted.

    NaN when no group has a reward.
    """
    measured = [group for group in rewards if len(group)]
    return float(collapsed(measured).mean()) if measured else float("nan")


def collapse_rate_by_rollout(rewards: Sequence[np.ndarray]) -> float:
    """Share of the rewarded rollouts that sit in collapsed groups: the compute that is wasted.

    NaN when there is no reward.
    """
    sizes = np.array([len(group) for group in rewards])
    return float(sizes @ collapsed(rewards) / sizes.sum()) if sizes.sum() else float("nan")
