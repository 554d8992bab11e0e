import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.replay.buffer import RolloutBuffer
from rlvr_platform.types import GradedGroup, GroupSummary


def graded(group_id: int, step: int) -> GradedGroup:
    ones = np.ones(2, np.int32)
    finish = ones.astype(np.uint8)
    summary = GroupSummary(group_id, step, 0, 1, ones, ones, ones, finish, 0.0, nbytes=1)
    return GradedGroup(summary, (), handle=None)


@given(st.permutations(range(6)))
def test_groups_leave_in_ticket_order_whatever_order_they_finished_in(order: list[int]) -> None:
    buffer = RolloutBuffer(capacity_groups=6)
    buffer.expect(1, range(6))
    for group_id in order:
        assert not buffer.ready(1)
        buffer.insert(graded(group_id, 1))
    assert [g.summary.group_id for g in buffer.take(1)] == list(range(6))


def test_a_step_takes_only_its_own_groups() -> None:
    buffer = RolloutBuffer(capacity_groups=4)
    buffer.expect(1, [0])
    buffer.expect(2, [1])
    buffer.insert(graded(1, 2))
    assert not buffer.ready(1)
    buffer.insert(graded(0, 1))
    assert [g.summary.group_id for g in buffer.take(1)] == [0]
    assert buffer.size == 1


def test_reserved_places_count_against_the_capacity() -> None:
    buffer = RolloutBuffer(capacity_groups=2)
    buffer.expect(1, [0])
    assert not buffer.full
    buffer.expect(2, [1])
    assert buffer.full
    buffer.insert(graded(0, 1))
    assert buffer.full
    buffer.take(1)
    assert not buffer.full


def test_a_group_nobody_expects_or_sent_twice_is_refused() -> None:
    buffer = RolloutBuffer(capacity_groups=2)
    buffer.expect(1, [0])
    with pytest.raises(ValueError, match="group 7 of step 1 was not expected"):
        buffer.insert(graded(7, 1))
    buffer.insert(graded(0, 1))
    with pytest.raises(ValueError, match="not expected"):
        buffer.insert(graded(0, 1))


def test_explain_names_the_groups_that_are_missing_and_for_how_long() -> None:
    now = [0.0]
    buffer = RolloutBuffer(capacity_groups=4, clock=lambda: now[0])
    assert "no group of step 1 was reserved" in buffer.explain(1)
    buffer.expect(1, [0, 1])
    buffer.insert(graded(0, 1))
    now[0] = 12.0
    assert buffer.explain(1) == "1 groups are in, 1 are missing; longest: 1 (12 s)"
    with pytest.raises(ValueError, match="step 1 is not ready"):
        buffer.take(1)


def test_a_growing_step_is_not_ready_before_it_is_said_to_be_complete() -> None:
    buffer = RolloutBuffer(capacity_groups=4)
    buffer.expect(1, [0], more=True)
    buffer.insert(graded(0, 1))
    assert not buffer.ready(1)
    assert "dynamic sampling has not decided" in buffer.explain(1)
    buffer.expect(1, [1], more=True)
    buffer.insert(graded(1, 1))
    buffer.expect(1, [], more=False)
    assert [group.summary.group_id for group in buffer.take(1)] == [0, 1]
