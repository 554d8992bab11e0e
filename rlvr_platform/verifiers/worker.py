"""A worker process: reads pickled items from its channel, answers each with a line of JSON."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import resource
import signal
import socket
import time
from dataclasses import dataclass

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding, Verifier

_LONGEST_TEXT = 1000
"""Characters of an extracted answer or a reason that travel back."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Confinement:
    """What binds a worker to its fork server."""

    parent: int
    """Process id of the fork server."""
    memory_bytes: int
    """Address-space limit."""

    def apply(self) -> None:
        """Own process group, death with the parent, memory limit, no core dumps."""
        os.setsid()
        die_with_parent(signal.SIGKILL, self.parent)
        resource.setrlimit(resource.RLIMIT_AS, (self.memory_bytes, self.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def die_with_parent(signal_number: int, parent: int) -> None:
    """Have the kernel send this process `signal_number` when its parent ends (Linux)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def serve(channel: socket.socket, verifier: Verifier) -> None:
    """Judge items in turn until the other side closes the channel.

    The pool takes an answer as the start of the next item, so answers are sent one by one.
    """
    worker = os.getpid()
    with channel.makefile("rb") as items:
        while True:
            try:
                prediction, gold, options = pickle.load(items)
            except EOFError:
                return
            started, cpu_before = time.perf_counter(), time.process_time()
            finding = judge(verifier, prediction, gold, options)
            if os.getpid() != worker:
                os._exit(0)  # A child that the verifier forked must not answer too.
            cpu_s = time.process_time() - cpu_before
            channel.sendall(encode(finding, time.perf_counter() - started, cpu_s))


def judge(verifier: Verifier, prediction: str, gold: str, options: dict[str, object]) -> Finding:
    """The verifier's finding; whatever it raises becomes an error, never a wrong answer."""
    try:
        finding = verifier.verify(prediction, gold, options)
        if not isinstance(finding, Finding):
            raise TypeError(f"the verifier returned {type(finding).__name__}, wanted a Finding")
        return finding
    # SystemExit and math-verify's TimeoutException are no Exceptions, and no verdicts either.
    except BaseException as error:
        return Finding(Outcome.ERROR, "", f"{type(error).__name__}: {error}")


def encode(finding: Finding, seconds: float, cpu_s: float) -> bytes:
    """One line. JSON, so that nothing a verifier does makes the pool unpickle its output."""
    fields = (
        str(finding.outcome),
        str(finding.extracted)[:_LONGEST_TEXT],
        str(finding.rule)[:_LONGEST_TEXT],
        seconds,
        cpu_s,
        None if finding.score is None else float(finding.score),
    )
    return json.dumps(fields).encode("ascii") + b"\n"
