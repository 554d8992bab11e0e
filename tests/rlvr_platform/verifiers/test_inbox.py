import select

import pytest

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import VerifierError
from rlvr_platform.verifiers.inbox import Inbox
from rlvr_platform.verifiers.tasks import GradeItem, Submission


def tasks(count):
    items = [GradeItem(str(i), str(i)) for i in range(count)]
    return Submission(items, VerifierConfig(use=ExactVerifier())).tasks


def test_an_inbox_wakes_its_reader_and_gives_each_task_once():
    inbox, put = Inbox(), tasks(3)
    inbox.put(put[:1])
    inbox.put(put[1:])
    assert select.select([inbox.woken], [], [], 0)[0]
    assert inbox.take() == put
    assert inbox.take() == []
    assert not select.select([inbox.woken], [], [], 0)[0]
    assert inbox.close(VerifierError("done")) == []


def test_more_wake_ups_than_the_socket_holds_do_not_block():
    inbox = Inbox()
    for _ in range(100_000):
        inbox.wake()
    inbox.put(tasks(1))
    assert len(inbox.close(VerifierError("done"))) == 1


def test_a_closed_inbox_hands_over_its_rest_and_refuses_more():
    inbox, put = Inbox(), tasks(2)
    inbox.put(put)
    assert inbox.close(VerifierError("the end")) == put
    with pytest.raises(VerifierError, match="the end"):
        inbox.put(put)
