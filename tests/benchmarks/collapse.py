"""Time of collapse rates and AVSPO at one step of 512 groups, against one group at a time.

    python tests/benchmarks/collapse.py

Two thirds of the groups are collapsed, so that AVSPO has work to do. Everything that a step needs
is timed together: statistics of all groups, both collapse rates, the mean reward, the rescue and
the new threshold. It starts once from one array of all rewards, and once from an array per group:
the difference is what joining 512 arrays costs. The reference does the same with numpy, group
after group.
"""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable

import numpy as np

from rlvr_platform.algorithms.advantages import advantages, has_signal
from rlvr_platform.algorithms.avspo import (
    CollapsedGroups,
    RescueRule,
    TriggerState,
    observe,
    rescue,
    virtual_count,
    virtual_rewards,
)
from rlvr_platform.algorithms.collapse import GroupStatistics, flat_statistics, group_statistics
from rlvr_platform.config.avspo import Avspo

GROUPS = 512
MIXED = 1000.0
"""Sum of |A| over the rows of mixed groups."""

CONFIG, STATE = Avspo(), TriggerState(0.5, 0.6, 0.4)
RULE = RescueRule(CONFIG, "grpo", 1e-6, 0.0, 1.0, seed=0)


def measure() -> dict[str, float]:
    """CPU seconds, medians of 15 repeats; ratios against the reference of the same run."""
    even = step_rewards(np.full(GROUPS, 8))
    uneven = step_rewards(np.random.default_rng(1).integers(4, 17, GROUPS))
    flat, size = np.concatenate(even), np.array([len(group) for group in even])
    seconds = {
        "flat_seconds": seconds_of(lambda: decide(flat_statistics(flat, size))),
        "list_seconds": seconds_of(lambda: decide(group_statistics(even))),
        "uneven_list_seconds": seconds_of(lambda: decide(group_statistics(uneven))),
        "one_by_one_seconds": seconds_of(lambda: one_by_one(even), calls=5),
    }
    reference = seconds["one_by_one_seconds"]
    return {
        **seconds,
        "flat_speedup": reference / seconds["flat_seconds"],
        "list_speedup": reference / seconds["list_seconds"],
    }


def step_rewards(size: np.ndarray) -> list[np.ndarray]:
    """Rewards of a step: a third each of mixed, all wrong and all correct groups."""
    mixed = [(np.arange(n) % 2).astype(float) for n in size]
    return [mixed[i] if i % 3 == 0 else np.full(n, i % 3 - 1.0) for i, n in enumerate(size)]


def seconds_of(work: Callable[[], object], calls: int = 100) -> float:
    """Of this thread's own time, so that a busy machine does not count."""
    repeats = timeit.repeat(work, number=calls, repeat=15, timer=time.process_time)
    return statistics.median(repeats) / calls


def decide(groups: GroupStatistics) -> tuple[np.ndarray, float, float, TriggerState]:
    """Advantages of the rescued groups, the rates, and the state after the step."""
    acr, index = groups.rate_by_group, np.flatnonzero(groups.collapsed)
    collapsed = CollapsedGroups(groups.size[index], groups.mean[index], groups.size[index], index)
    result = rescue(collapsed, RULE, STATE, acr, MIXED, step=1)
    after = observe(STATE, acr, groups.mean_reward, CONFIG)
    return result.advantage, acr, groups.rate_by_rollout, after


def one_by_one(rewards: list[np.ndarray]) -> tuple[np.ndarray, float, float, TriggerState]:
    """The same decision as a loop over groups."""
    flags = [not has_signal(group) for group in rewards]
    acr = sum(flags) / len(flags)
    wasted = sum(len(group) for group, flag in zip(rewards, flags, strict=True) if flag)
    smoothed = CONFIG.ema * 0.6 + (1 - CONFIG.ema) * acr
    rescued, total = [], 0.0
    for group, flag in zip(rewards, flags, strict=True):
        if flag:
            count = virtual_count(len(group), smoothed, CONFIG.alpha)
            virtual = virtual_rewards(bool(group[0]), count, 0.0, 1.0, 0.1, "stratified", [0])
            advantage = advantages(np.concatenate([group, virtual]), "grpo", 1e-6)[0]
            rescued.append(float(np.clip(advantage, -1.0, 1.0)))
            total += len(group) * abs(rescued[-1])
    share = CONFIG.max_share
    scale = min(1.0, share * MIXED / ((1 - share) * total))
    reward = sum(group.mean() for group in rewards) / len(rewards)
    after = observe(STATE, acr, float(reward), CONFIG)
    return np.array(rescued) * scale, acr, wasted / sum(map(len, rewards)), after


def main() -> None:
    even = step_rewards(np.full(GROUPS, 8))
    fast, slow = decide(group_statistics(even)), one_by_one(even)
    np.testing.assert_allclose(fast[0], slow[0], rtol=1e-5)
    assert fast[1:3] == slow[1:3], "the reference decides otherwise"
    for name, value in measure().items():
        timed = name.endswith("seconds")
        print(f"{name:24s}" + (f"{1e6 * value:10.1f} us" if timed else f"{value:10.1f} x"))


if __name__ == "__main__":
    main()
