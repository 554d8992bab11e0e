"""A verifier for tests that does to its process what the completion says."""

import ctypes
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding


class _TimeoutException(BaseException):
    """Like math-verify's: not an Exception."""


def build(config):
    return Misbehaving()


def build_broken(config):
    raise FileNotFoundError("no such answer key")


def _raise(error):
    raise error


def _announce(options):
    with Path(options["pids"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(options.get("seconds", 0))


def _leave_child(options):
    child = subprocess.Popen(["sleep", "600"])
    Path(options["pids"]).write_text(f"{child.pid}\n")
    time.sleep(600)


def _flood(_):
    for stream in (sys.stdout, sys.stderr):
        for _ in range(64):
            stream.write("x" * (1 << 20))
        stream.flush()


ACTIONS = {
    "segfault": lambda _: ctypes.string_at(0),
    "exit": lambda _: os._exit(7),
    "system exit": lambda _: sys.exit(3),
    "timeout exception": lambda _: _raise(_TimeoutException("late")),
    "raise": lambda _: _raise(ValueError("boom")),
    "memory": lambda _: bytearray(1 << 40),
    "recursion": lambda _: (lambda f: f(f))(lambda f: f(f)),
    "hang in C": lambda _: re.match(r"(a+)+$", "a" * 60 + "b"),
    "close descriptors": lambda _: os.closerange(3, 64),
    "flood": _flood,
    "announce": _announce,
    "leave child": _leave_child,
}


class Misbehaving:
    def verify(self, prediction, gold, options):
        ACTIONS.get(prediction, lambda _: None)(options)
        equal = prediction == gold
        return Finding(Outcome.CORRECT if equal else Outcome.WRONG, prediction, "echo")
