"""`rlvr downsample`: which rollouts of each group a rule keeps, from rewards alone."""

from __future__ import annotations

import argparse
import json
import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_platform.algorithms.downsampling import (
    LARGEST_REWARD,
    LEAST_KEPT,
    Rule,
    downsample,
    subset_variance,
)
from rlvr_platform.errors import InputError

_SHAPE = '{"rewards": [[..], ..], "m": int, "rule"?: text, "seed"?: int}'
_KEYS = ("rewards", "m", "rule", "seed")
_LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What the file asks for."""

    rewards: list[np.ndarray]
    """float64 [n] per group."""
    keep: int
    rule: Rule
    seed: int


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "downsample",
        help="choose the rollouts of each group to train on, from their rewards",
        description=f"Reads {_SHAPE}; prints {{kept: [[index, ..], ..], variance: [..]}}, a list "
        f"and a population variance for each group. Rules: {', '.join(typing.get_args(Rule))}; "
        "max_variance and seed 0 unless set. A group's number in the file is its id.",
    )
    parser.add_argument("file", metavar="FILE", help="a JSON object; - for standard input")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the choice as one JSON object; returns 0. Raises InputError for a bad file."""
    request = parse_request(_read(args.file))
    group_ids = np.arange(len(request.rewards))
    kept = downsample(request.rewards, request.keep, request.rule, request.seed, group_ids)
    variance = [subset_variance(r, k) for r, k in zip(request.rewards, kept, strict=True)]
    print(json.dumps({"kept": [indices.tolist() for indices in kept], "variance": variance}))
    return 0


def parse_request(text: bytes) -> Request:
    """Read and check the JSON of a request. Raises InputError that names what is wrong where."""
    try:
        document = json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the input is not JSON: {error}", _SHAPE) from None
    if not isinstance(document, dict):
        raise InputError(f"the input is a JSON {type(document).__name__}", f"an object {_SHAPE}")
    if unknown := [key for key in document if key not in _KEYS]:
        raise InputError(f"unknown key {', '.join(unknown)}", _SHAPE, "remove it or correct it")
    if missing := [key for key in ("rewards", "m") if key not in document]:
        raise InputError(f"{' and '.join(missing)} missing", _SHAPE)
    return Request(
        rewards=_rewards(document["rewards"]),
        keep=_integer(document, "m", LEAST_KEPT),
        rule=_rule(document.get("rule", "max_variance")),
        seed=_integer({"seed": 0, **document}, "seed", 0),
    )


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", "a JSON file") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if repeated := [key for key in keys if keys.count(key) > 1]:
        raise ValueError(f"the key {repeated[0]} stands twice")
    return dict(pairs)


def _integer(document: Mapping[str, Any], name: str, least: int) -> int:
    value = document[name]
    # bool is an int to Python, never to the reader of the file.
    if type(value) is not int or not least <= value <= _LARGEST_INTEGER:
        raise InputError(f"{name} is {_shown(value)}", f"an integer from {least} up")
    return value


def _rule(value: Any) -> Rule:
    if not isinstance(value, str) or value not in typing.get_args(Rule):
        raise InputError(f"rule is {_shown(value)}", f"one of {', '.join(typing.get_args(Rule))}")
    return typing.cast(Rule, value)


def _rewards(value: Any) -> list[np.ndarray]:
    if not isinstance(value, list):
        raise InputError(f"rewards is {_shown(value)}", "a list of groups, each a list of numbers")
    return [_group(index, group) for index, group in enumerate(value)]


def _group(index: int, group: Any) -> np.ndarray:
    if not isinstance(group, list):
        raise InputError(f"rewards, group {index}, is {_shown(group)}", "a list of numbers")
    if not group:
        raise InputError(
            f"rewards, group {index}, is empty", "one reward or more", "leave the group out"
        )
    for position, reward in enumerate(group):
        number = isinstance(reward, int | float) and not isinstance(reward, bool)
        if not number or not abs(reward) <= LARGEST_REWARD:
            raise InputError(
                f"rewards, group {index}, position {position}, is {_shown(reward)}",
                f"a number between -{LARGEST_REWARD:g} and {LARGEST_REWARD:g}",
                "leave out rollouts that have no verdict",
            )
    return np.array(group, np.float64)


def _shown(value: Any) -> str:
    """The value as JSON, shortened."""
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
