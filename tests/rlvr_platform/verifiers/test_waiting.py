import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.verifiers.tasks import GradeItem, Submission
from rlvr_platform.verifiers.waiting import Waiting


def tasks(count):
    items = [GradeItem(str(i), str(i)) for i in range(count)]
    return Submission(items, VerifierConfig(use=ExactVerifier())).tasks


def taught(seconds=0.1):
    waiting = Waiting(deadline_s=5.0)
    for task in tasks(32):
        waiting.judged(task, seconds)
    return waiting


def test_who_made_way_comes_after_the_ordinary_and_who_did_so_twice_last():
    waiting, (sounded, ordinary, once, twice) = Waiting(5.0), tasks(4)
    waiting.make_way(sounded, 0.1)
    assert waiting.take() is sounded
    twice.make_way(0.1)
    for task in (twice, once):
        waiting.make_way(task, 0.1)
    waiting.give_back([ordinary])
    assert (waiting.take_second(), waiting.take_slow()) == (None, None)
    assert [waiting.take(), waiting.take()] == [ordinary, None]
    assert waiting.take_slow() is None
    assert [waiting.take_second(), waiting.take_second()] == [once, None]
    assert (waiting.take_slow(), waiting.take_slow()) == (twice, None)
    assert not waiting


def test_of_those_that_make_way_the_first_and_every_thirty_second_is_tried_again_at_once():
    waiting, (ordinary, *others) = Waiting(5.0), tasks(66)
    waiting.add([ordinary])
    at_once = []
    for i, task in enumerate(others):
        waiting.make_way(task, 0.1)
        if (first := waiting.take()) is task:
            at_once.append(i)
        else:
            waiting.give_back([first])
    assert at_once == [0, 32, 64]


def test_what_is_given_back_goes_first_and_keeps_its_order():
    waiting, (a, b, c) = Waiting(5.0), tasks(3)
    waiting.add([c])
    waiting.give_back([a, b])
    assert [waiting.take() for _ in range(3)] == [a, b, c]


def test_only_what_others_wait_for_makes_way_and_the_slow_never():
    waiting, (task, other) = taught(), tasks(2)
    assert waiting.patience_s(task, followed=False) == math.inf
    assert waiting.patience_s(task, followed=True) == pytest.approx(0.125)
    waiting.add([other])
    assert waiting.patience_s(task, followed=False) == pytest.approx(0.125)
    task.make_way(0.15)
    assert waiting.patience_s(task, followed=False) == pytest.approx(0.5)
    task.make_way(0.6)
    assert waiting.patience_s(task, followed=True) == math.inf


def test_a_second_try_is_long_enough_for_all_that_is_not_slow():
    waiting, (task,) = taught(seconds=0.001), tasks(1)
    task.make_way(0.004)
    assert waiting.patience_s(task, followed=True) == pytest.approx(0.1)


def test_slow_tasks_that_wait_hold_up_nobody():
    waiting, (task, slow) = taught(), tasks(2)
    slow.make_way(0.1)
    waiting.make_way(slow, 0.6)
    assert waiting.patience_s(task, followed=False) == math.inf


def test_a_time_out_counts_as_an_item_that_did_not_end():
    waiting, (task, *others) = Waiting(5.0), tasks(128)
    for other in others[:112]:
        waiting.timed_out(other)
    for other in others[-15:]:
        waiting.judged(other, 0.1)
    assert waiting.patience_s(task, followed=True) == math.inf


@given(st.lists(st.sampled_from(["add", "back", "way", "take", "second", "slow"]), max_size=60))
def test_no_task_is_lost_or_doubled_whatever_happens(steps):
    waiting, fresh, held = Waiting(5.0), tasks(60), []
    added = []
    takes = {"take": waiting.take, "second": waiting.take_second, "slow": waiting.take_slow}
    for step in steps:
        if step == "add":
            added.append(fresh.pop())
            waiting.add(added[-1:])
        elif step in takes:
            task = takes[step]()
            held += [task] if task else []
        elif held and step == "back":
            waiting.give_back([held.pop()])
        elif held and not held[-1].slow:
            waiting.make_way(held.pop(), 0.1)
        assert bool(waiting) == (len(held) < len(added))
    assert sorted(map(id, [*held, *waiting.take_all()])) == sorted(map(id, added))
    assert not waiting
