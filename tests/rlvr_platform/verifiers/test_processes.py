import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.verifiers.processes import OwnMemory, Worker, cpu_seconds
from rlvr_platform.verifiers.tasks import GradeItem, Submission

_GROWING = """
import sys
for line in sys.stdin:
    kept = b"x" * (int(line) << 20)
    print("grown", flush=True)
"""


def test_growth_is_memory_the_process_took_since_and_nothing_once_it_ended():
    command = [sys.executable, "-c", _GROWING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"1\n")
        process.stdin.flush()
        process.stdout.readline()
        memory = OwnMemory(process.pid)
        assert abs(memory.growth_mib()) < 2
        process.stdin.write(b"100\n")
        process.stdin.flush()
        process.stdout.readline()
        assert 90 < memory.growth_mib() < 110
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        assert memory.growth_mib() <= 0
        memory.close()


@pytest.fixture
def channel():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield Worker(os.getpid(), ours), theirs


def test_answers_are_read_as_far_as_they_have_arrived(channel):
    worker, other = channel
    lines = [json.dumps(["wrong", "x", "rule", 0.1, 0.1, None]).encode() + b"\n" for _ in range(3)]
    other.sendall(lines[0] + lines[1] + lines[2][:5])
    assert len(list(worker.answers())) == 2
    other.sendall(lines[2][5:])
    other.shutdown(socket.SHUT_WR)
    assert list(worker.answers()) == [["wrong", "x", "rule", 0.1, 0.1, None]]
    assert worker.hung_up


def test_what_is_no_answer_raises_after_the_answers_before_it(channel):
    worker, other = channel
    other.sendall(b"[1]\nnonsense\n")
    answers = worker.answers()
    assert next(answers) == [1]
    with pytest.raises(ValueError, match="Expecting value"):
        next(answers)


def test_a_worker_on_a_task_that_made_way_or_about_to_end_is_not_for_other_tasks(channel):
    worker, other = channel
    (task,) = Submission([GradeItem("a", "b")], VerifierConfig(use=ExactVerifier())).tasks
    assert not worker.able
    other.sendall(b"\n")
    assert list(worker.answers()) == []
    assert worker.able
    worker.assign(task)
    assert not worker.slowed
    task.make_way(0.1)
    assert worker.slowed
    worker.retiring = True
    assert not worker.able


def test_time_without_a_processor_is_told_from_time_with_one(channel):
    worker, _ = channel
    worker.begin()
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    time.sleep(0.2)
    worker.look()
    elapsed = time.monotonic() - worker.since
    assert 0.2 <= worker.off_cpu_s <= elapsed - 0.1
    worker.begin()
    assert worker.off_cpu_s == 0.0


def test_the_processor_time_of_a_process_that_ended_is_nothing():
    process = subprocess.Popen(["true"])
    process.wait(timeout=10)
    assert cpu_seconds(process.pid) == 0.0
    assert cpu_seconds(os.getpid()) == pytest.approx(time.process_time(), abs=0.05)
