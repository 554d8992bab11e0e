"""Reservations of rollouts, numbered so that the same run always makes the same ones."""

from collections.abc import Sequence

import numpy as np

from rlvr_platform.config.rollout import RolloutConfig
from rlvr_platform.types import Prompt, Ticket


def tickets(
    first: int, step: int, prompts: Sequence[Prompt], counts: np.ndarray, run_seed: int
) -> list[Ticket]:
    """One ticket per prompt for `step`, numbered from `first`, with `counts` int64 [B] rollouts.

    Numbers and seeds depend on the run's seed and the place in the run alone, so a step that
    is generated again after a resume samples with the same seeds.
    """
    return [
        Ticket(
            group_id=first + slot,
            step=step,
            prompt=prompt,
            n=int(count),
            seed=ticket_seed(run_seed, first + slot),
        )
        for slot, (prompt, count) in enumerate(zip(prompts, counts, strict=True))
    ]


def first_ticket(step: int, rollout: RolloutConfig) -> int:
    """Number of the first ticket of `step` (from 1): steps have disjoint ranges of numbers."""
    return (step - 1) * rollout.prompts_per_step * rollout.sampling_rounds


def ticket_seed(run_seed: int, group_id: int) -> int:
    """A seed of its own for every group of every run, far from all others."""
    return int(np.random.SeedSequence([run_seed, group_id]).generate_state(1)[0])
