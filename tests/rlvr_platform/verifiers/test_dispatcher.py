import time

import pytest

from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.dispatcher import Dispatcher
from rlvr_platform.verifiers.tasks import GradeItem, Submission

_VERIFIERS = """
import os, time
from pathlib import Path
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding

class Busy:
    def verify(self, prediction, gold, options):
        with Path(options["pids"]).open("a") as file:
            file.write(f"{os.getpid()}\\n")
        end = time.process_time() + options.get("busy", 0)
        while time.process_time() < end:
            pass
        time.sleep(options.get("asleep", 0))
        return Finding(Outcome.CORRECT, prediction, "busy")

def busy(config):
    return Busy()

def fork():
    raise BlockingIOError("no process left")

def no_process(config):
    os.fork = fork

def no_session(config):
    del os.setsid
"""


@pytest.fixture
def dispatch(monkeypatch, tmp_path):
    (tmp_path / "dispatched.py").write_text(_VERIFIERS)
    monkeypatch.syspath_prepend(tmp_path)
    started = []

    def start(factory, **pool):
        config = VerifierConfig(use=ExactVerifier(), pool=PoolConfig(**pool))
        started.append(Dispatcher(config, f"dispatched:{factory}"))
        started[-1].start()

        def put(*options):
            items = [GradeItem("a", "a", {"pids": str(tmp_path / "pids"), **o}) for o in options]
            submission = Submission(items, config)
            started[-1].put(submission.tasks)
            return submission.future

        return put

    yield start
    for dispatcher in started:
        dispatcher.stop()


@pytest.mark.parametrize(
    ("factory", "reason"),
    [("no_process", "the fork server died"), ("no_session", "exited with status 1")],
)
def test_workers_that_cannot_start_end_the_pool_with_a_reason(dispatch, factory, reason):
    put = dispatch(factory)
    with pytest.raises(VerifierError, match=f"before any work: .*{reason}"):
        put({}).result(timeout=60)


def test_an_item_that_holds_up_others_starts_again_twice_and_then_has_its_deadline(
    dispatch, tmp_path
):
    put = dispatch("busy", workers=1, deadline_s=20.0)
    put(*[{}] * 64).result(timeout=60)
    slow = put({"busy": 1.0, "pids": str(tmp_path / "slow")})
    while not slow.done():
        put(*[{}] * 8).result(timeout=20)
        time.sleep(0.01)
    assert slow.result()[0].outcome is Outcome.CORRECT
    assert len(set((tmp_path / "slow").read_text().split())) == 3


def test_an_item_that_waits_for_a_processor_or_sleeps_has_more_patience(dispatch, tmp_path):
    put = dispatch("busy", workers=1)
    put(*[{"busy": 0.04}] * 64).result(timeout=60)
    (tmp_path / "pids").unlink()
    put(*[{"asleep": 0.09}] * 4).result(timeout=20)
    assert len(set((tmp_path / "pids").read_text().split())) == 1
