import json
import pickle
import socket
import threading

import pytest

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.exact import ExactText
from rlvr_platform.verifiers.worker import encode, judge, serve


class Raising:
    def __init__(self, error):
        self.error = error

    def verify(self, prediction, gold, options):
        raise self.error


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt("x"), SystemExit("x")])
def test_whatever_a_verifier_raises_is_an_error_with_its_reason(error):
    finding = judge(Raising(error), "1", "1", {})
    assert finding == Finding(Outcome.ERROR, "", f"{type(error).__name__}: x")


def test_an_answer_is_one_short_line_of_ascii_whatever_it_holds():
    line = encode(Finding(Outcome.WRONG, "\ud800\n" * 10**6, "rule\n" * 10**6), 0.5)
    assert line.count(b"\n") == 1
    outcome, extracted, rule, seconds = json.loads(line)
    assert (outcome, extracted[:3], rule[:5], seconds) == ("wrong", "\ud800\n\ud800", "rule\n", 0.5)
    assert len(line) < 20_000


def test_items_are_answered_in_turn_until_the_channel_closes():
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=serve, args=(theirs, ExactText(ignore_case=False)))
    thread.start()
    with ours:
        for i in range(100):
            ours.sendall(pickle.dumps((str(i), str(i - i % 2), {})))
        ours.shutdown(socket.SHUT_WR)
        thread.join(timeout=10)
        assert not thread.is_alive()
        theirs.close()
        answers = [json.loads(line) for line in ours.makefile("rb")]
    assert [a[1] for a in answers] == [str(i) for i in range(100)]
    assert [a[0] for a in answers] == ["correct", "wrong"] * 50
