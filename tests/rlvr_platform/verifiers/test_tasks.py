import pickle
import random

import pytest

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.tasks import GradeItem, Submission

CONFIG = VerifierConfig(use=ExactVerifier())


def submission(count):
    return Submission([GradeItem(str(i), "g", {"i": i}) for i in range(count)], CONFIG)


def test_verdicts_are_put_back_in_order_whatever_order_they_come_in():
    whole = submission(50)
    order = list(range(50))
    random.Random(0).shuffle(order)
    for i in order:
        assert not whole.future.done()
        whole.tasks[i].deliver("correct" if i % 2 else "timeout", str(i), "rule", 0.1)
    verdicts = whole.future.result(timeout=0)
    assert [v.extracted for v in verdicts] == [str(i) for i in range(50)]
    assert [v.outcome for v in verdicts] == [Outcome.TIMEOUT, Outcome.CORRECT] * 25
    assert [v.reward for v in verdicts] == [None, 1.0] * 25


def test_a_score_is_paid_as_a_share():
    whole = submission(2)
    whole.tasks[0].deliver("wrong", "", "rule", 0.1, 0.25)
    whole.tasks[1].deliver("error", "", "rule", 0.1)
    assert [v.reward for v in whole.future.result(timeout=0)] == [0.25, None]


def test_the_payload_is_what_a_worker_unpickles():
    assert pickle.loads(submission(3).tasks[2].payload) == ("2", "g", {"i": 2})


def test_a_failure_of_any_task_fails_the_future_once():
    whole = submission(3)
    for task in whole.tasks:
        task.fail(VerifierError("gone"))
    with pytest.raises(VerifierError, match="gone"):
        whole.future.result(timeout=0)
    assert not whole.future.cancel()
