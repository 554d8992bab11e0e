"""`rlvr allocate`: how many rollouts each prompt gets, from success probabilities alone."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import ValidationError

from rlvr_platform.allocation.belief import certain
from rlvr_platform.allocation.objectives import OBJECTIVES, ObjectiveName
from rlvr_platform.config.base import Section, setting
from rlvr_platform.errors import InputError

_MOST = 10_000_000
_SHOWN = 3
"""Problems told of at most."""


class _Request(Section):
    p: list[float] = setting(doc="Success probability of each prompt.")
    budget: int = setting(doc="Rollouts in all.", le=_MOST)
    min: int = setting(doc="Fewest rollouts of a prompt.", le=_MOST)
    max: int = setting(doc="Most rollouts of a prompt.", le=_MOST)
    objective: ObjectiveName = setting(doc="What the rollouts are spent to reduce.")
    solver: Literal["closed_form", "greedy", "cvxpy"] = setting("closed_form", "The method.")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "allocate",
        help="spread rollouts over prompts of known success probability",
        description="Reads {p: [..], budget, min, max, objective, solver?}; prints "
        "{n: [..], objective_value, seconds}. Objectives: "
        f"{', '.join(OBJECTIVES)}. Solvers: closed_form (default), greedy, cvxpy. "
        "objective_value is the summed gradient variance for scores of variance 1, to be small; "
        "for mixed_prob the expected number of prompts with both outcomes, to be large.",
    )
    parser.add_argument("file", metavar="FILE", help="a JSON object; - for standard input")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Allocate; raises InputError for a bad request, ConfigError for an infeasible one."""
    request = _parse(_read(args.file), args.file)
    belief, solve = certain(request.p), _solver(request.solver)
    started = time.perf_counter()
    counts = solve(belief, request.budget, request.min, request.max, request.objective)
    seconds = time.perf_counter() - started
    value = OBJECTIVES[request.objective].value(belief, counts)
    print(json.dumps({"n": counts.tolist(), "objective_value": value, "seconds": seconds}))
    return 0


def _solver(kind: str) -> Callable[..., np.ndarray]:
    """Imports scipy, or cvxpy, which the other commands start without."""
    if kind == "cvxpy":
        from rlvr_platform.allocation.convex import solve_convex

        return solve_convex
    from rlvr_platform.allocation import solver

    return solver.greedy if kind == "greedy" else solver.closed_form


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", "a JSON file") from None


def _parse(text: bytes, name: str) -> _Request:
    try:
        return _Request.model_validate_json(text)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}".removeprefix(": ")
            for e in error.errors(include_input=False, include_url=False)
        ]
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    source = "standard input" if name == "-" else name
    raise InputError(
        f"{source} is no allocation request: {'; '.join(problems[:_SHOWN])}{more}",
        "one JSON object {p: [..], budget, min, max, objective, solver?}",
        "p holds numbers in [0, 1]; budget, min and max are whole numbers of rollouts",
    )
