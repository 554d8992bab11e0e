"""Who is to blame when a worker is lost over several groups."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actors.quarantine import Strikes
from rlvr_platform.types import Prompt, Ticket


def tickets(count: int) -> list[Ticket]:
    prompt = Prompt(0, "", np.zeros(1, np.int32), "", "test")
    return [Ticket(i, 1, prompt, 2, 0) for i in range(count)]


@given(st.sets(st.integers(0, 11)), st.integers(1, 12))
def test_exactly_the_poisonous_are_given_up_and_all_others_finish(
    poison: set[int], count: int
) -> None:
    """Every batch with a poisonous ticket takes its worker down before anything finishes."""
    strikes, waiting = Strikes(), {ticket.group_id: ticket for ticket in tickets(count)}
    finished, given_up, losses = set(), set(), 0
    while waiting:
        batch = strikes.next_batch(list(waiting.values()))
        if any(ticket.group_id in poison for ticket in batch):
            losses += 1
            settled = strikes.blame(batch, "died", alone=len(batch) == 1)
            given_up |= {entry.ticket.group_id for entry in settled}
            batch = [entry.ticket for entry in settled]
        else:
            finished |= {ticket.group_id for ticket in batch}
        for ticket in batch:
            del waiting[ticket.group_id]
    assert given_up == poison & set(range(count))
    assert finished == set(range(count)) - poison
    assert losses <= 2 + len(given_up)


def test_a_loss_that_came_from_outside_blames_nobody() -> None:
    strikes, waiting = Strikes(), tickets(3)
    assert strikes.blame(waiting, "killed", alone=False) == []
    assert strikes.next_batch(waiting) == waiting


def test_a_group_that_times_out_twice_by_itself_is_given_up() -> None:
    strikes, (ticket, *_) = Strikes(), tickets(3)
    assert strikes.blame([ticket], "late", alone=True) == []
    (entry,) = strikes.blame([ticket], "late", alone=True)
    assert (entry.ticket, entry.reason) == (ticket, "late")


def test_the_ticket_that_takes_the_place_of_a_given_up_one_starts_without_strikes() -> None:
    strikes, (ticket, *_) = Strikes(), tickets(3)
    for _ in range(2):
        settled = strikes.blame([ticket], "died", alone=True)
    assert len(settled) == 1
    assert strikes.blame([ticket], "died", alone=True) == []


def test_a_group_that_finishes_is_forgiven() -> None:
    strikes, waiting = Strikes(), tickets(3)
    strikes.blame(waiting, "killed", alone=False)
    strikes.forget([ticket.group_id for ticket in waiting])
    assert strikes.blame(waiting[:1], "died", alone=True) == []
