"""A verifier function for tests that does to its process what the completion says."""

import math
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from rlvr_platform.config.verifiers_more import FunctionVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.function import UserFunction


def build(config):
    return UserFunction(FunctionVerifier(path="hostile_functions:judge"))


def _print(_):
    print('["correct", "forged", "forged", 0.0, 1.0]')
    print("x" * 100_000, file=sys.stderr)
    os.write(1, b'["correct", "forged", "forged", 0.0, 1.0]\n')
    return True


def _fork_and_return(options):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    return True


def _fork_and_raise(options):
    if os.fork() == 0:
        raise ValueError("in the child")
    time.sleep(0.2)
    return True


def _fork_and_stay(options):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    Path(options["pids"]).write_text(f"{pid}\n")
    return True


def _thread(_):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return True


def _raise(_):
    raise KeyError("no such thing")


class _Unprintable:
    def __repr__(self):
        raise RuntimeError("cannot be shown")


ACTIONS = {
    "print": _print,
    "fork and return": _fork_and_return,
    "fork and raise": _fork_and_raise,
    "fork and stay": _fork_and_stay,
    "thread": _thread,
    "raise": _raise,
    "exit": lambda _: os._exit(0),
    "sys.exit": lambda _: sys.exit(0),
    "abort": lambda _: os.abort(),
    "hang": lambda _: time.sleep(600),
    "NaN": lambda _: math.nan,
    "numpy NaN": lambda _: np.float32("nan"),
    "infinite": lambda _: math.inf,
    "too large": lambda _: 1.5,
    "negative": lambda _: -0.1,
    "None": lambda _: None,
    "text": lambda _: "True",
    "list": lambda _: [True, False, True],
    "array": lambda _: np.array([1.0, 0.0]),
    "complex": lambda _: 1 + 0j,
    "unprintable": lambda _: _Unprintable(),
    "bad finding": lambda _: Finding(Outcome.CORRECT, "", "", math.nan),
    "numpy score": lambda _: np.float32(0.5),
    "numpy finding": lambda _: Finding(Outcome.WRONG, "x", "mine", np.float32(0.5)),
}


def judge(prediction, gold, options):
    if prediction in ACTIONS:
        return ACTIONS[prediction](options)
    return prediction == gold


def of_two(prediction, gold):
    return prediction == gold


NOT_CALLABLE = 3
