import numpy as np

from rlvr_platform.config.rollout import RolloutConfig
from rlvr_platform.tickets import first_ticket, tickets
from rlvr_platform.types import Prompt, Ticket

PROMPTS = [Prompt(i, "", np.zeros(1, np.int32), "", "s") for i in (4, 2, 9)]
COUNTS = np.array([3, 1, 2])


def tickets_of_step(step: int, run_seed: int, rounds: int = 1) -> list[Ticket]:
    rollout = RolloutConfig(prompts_per_step=len(PROMPTS), sampling_rounds=rounds)
    return tickets(first_ticket(step, rollout), step, PROMPTS, COUNTS, run_seed)


def test_numbers_are_unique_over_steps_and_increase_in_reservation_order() -> None:
    numbers = [
        ticket.group_id for step in (1, 2, 3) for ticket in tickets_of_step(step, run_seed=0)
    ]
    assert numbers == list(range(9))


def test_a_step_reserved_again_has_the_same_tickets() -> None:
    first, again = (tickets_of_step(5, run_seed=3) for _ in range(2))
    assert [(t.group_id, t.seed, t.n) for t in first] == [(t.group_id, t.seed, t.n) for t in again]
    assert [t.n for t in first] == [3, 1, 2]


def test_seeds_differ_between_groups_and_between_runs() -> None:
    seeds = {
        ticket.seed
        for run in range(20)
        for step in range(1, 20)
        for ticket in tickets_of_step(step, run_seed=run)
    }
    assert len(seeds) == 20 * 19 * 3


def test_dynamic_sampling_leaves_room_for_every_round_of_a_step() -> None:
    """With 4 rounds of 3 prompts, the first number of the next step is 12 further on."""
    numbers = [tickets_of_step(step, run_seed=0, rounds=4)[0].group_id for step in (1, 2, 3)]
    assert numbers == [0, 12, 24]
