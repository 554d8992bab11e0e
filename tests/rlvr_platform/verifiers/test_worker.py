import json
import pickle
import socket
import subprocess
import sys
import threading
import time

import numpy as np
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


class Returning:
    def __init__(self, result):
        self.result = result

    def verify(self, prediction, gold, options):
        return self.result() if callable(self.result) else self.result


@pytest.mark.parametrize("result", [None, True, 1.0, "correct", [], (Outcome.CORRECT, "", "")])
def test_anything_but_a_finding_is_an_error(result):
    finding = judge(Returning(result), "1", "1", {})
    assert (finding.outcome, finding.score) == (Outcome.ERROR, None)
    assert "wanted a Finding" in finding.rule


@pytest.mark.parametrize("score", [0, 0.25, 1, np.float32(0.5)])
def test_a_score_travels_as_a_number(score):
    line = encode(Finding(Outcome.WRONG, "", "", score), 0.5, 0.4)
    assert json.loads(line)[5] == float(score)


def test_a_child_that_the_verifier_forked_answers_nothing():
    ours, theirs = socket.socketpair()
    fork = f"""
import os, socket
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.worker import serve

class Forking:
    def verify(self, prediction, gold, options):
        return Finding(Outcome.CORRECT, "parent" if os.fork() else "child", "")

serve(socket.socket(fileno={theirs.fileno()}), Forking())
"""
    environment = {"PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", fork]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment) as process, ours:
        theirs.close()
        for _ in range(5):
            ours.sendall(pickle.dumps(("", "", {})))
        ours.shutdown(socket.SHUT_WR)
        answers = [json.loads(line) for line in ours.makefile("rb")]
        assert process.wait(timeout=10) == 0
    assert [answer[1] for answer in answers] == ["parent"] * 5


def test_an_answer_is_one_short_line_of_ascii_whatever_it_holds():
    line = encode(Finding(Outcome.WRONG, "\ud800\n" * 10**6, "rule\n" * 10**6), 0.5, 0.4)
    assert line.count(b"\n") == 1
    outcome, extracted, rule, *times, score = json.loads(line)
    assert (outcome, extracted[:3], rule[:5]) == ("wrong", "\ud800\n\ud800", "rule\n")
    assert (times, score) == ([0.5, 0.4], None)
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


class _Asleep:
    def verify(self, prediction, gold, options):
        time.sleep(0.2)
        return Finding(Outcome.CORRECT, "", "")


def test_an_answer_tells_time_on_a_processor_from_time():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(pickle.dumps(("", "", {})))
        ours.shutdown(socket.SHUT_WR)
        serve(theirs, _Asleep())
        seconds, cpu_s = json.loads(ours.recv(1 << 16))[3:5]
    assert cpu_s < 0.1 < 0.2 <= seconds
