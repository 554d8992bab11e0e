"""A verifier for tests that does to its process what the completion says."""

import ctypes
import os
import re
import stat
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


def _leave_daemon(options):
    """A grandchild in a session of its own: out of the worker's process group."""
    program = (
        "import os, subprocess, sys; child = subprocess.Popen(['sleep', '600'], "
        "start_new_session=True); open(sys.argv[1], 'a').write(f'{child.pid}\\n')"
    )
    subprocess.run([sys.executable, "-c", program, options["pids"]], check=True)


def _fork(options):
    if os.fork() == 0:
        time.sleep(options.get("seconds", 0))
        raise ValueError("from the child")


def _channel():
    """The descriptor by which this worker answers."""
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return fd
        except OSError:
            continue
    raise LookupError("no socket")


def _recurse_in_c(_):
    sys.setrecursionlimit(1 << 30)
    nested = []
    for _ in range(200_000):
        nested = [nested]
    repr(nested)


_KEPT = []


def _leak(options):
    _KEPT.append(b"x" * (options["mib"] << 20))


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
    "flood the channel": lambda _: os.write(_channel(), b"x" * (1 << 22)),
    "garble the channel": lambda _: os.write(_channel(), b"[1, 2]\n{}\n\xff\n"),
    "half an answer": lambda _: os.write(_channel(), b'["correct","","",0.1,null,null]\n'),
    "recursion in C": _recurse_in_c,
    "leave daemon": _leave_daemon,
    "fork": _fork,
    "leak": _leak,
    "announce": _announce,
    "leave child": _leave_child,
}


class Misbehaving:
    def verify(self, prediction, gold, options):
        ACTIONS.get(prediction, lambda _: None)(options)
        equal = prediction == gold
        return Finding(Outcome.CORRECT if equal else Outcome.WRONG, prediction, "echo")
