"""The command line: one module a command, one exit code a kind of end."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from rlvr_platform.cli import (
    allocate,
    config,
    doctor,
    downsample,
    export,
    grade,
    replay_update,
    report,
    train,
)
from rlvr_platform.errors import RlvrError

COMMANDS = (
    train,
    config,
    doctor,
    grade,
    allocate,
    downsample,
    report,
    export,
    replay_update,
)
"""Each module has `add_parser(subparsers)`, which sets `run`: arguments to exit code."""

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    An RlvrError becomes one message and its exit code. Anything else is a fault of ours and
    keeps its traceback.
    """
    args = parse(argv)
    try:
        return args.run(args)
    except RlvrError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has had enough; the interpreter would complain at its last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the arguments; exits with 2 when they make no sense."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    # argparse takes positionals in one run only; overrides may follow an option as well.
    if rest and (not hasattr(args, "overrides") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.overrides = [*args.overrides, *rest]
    return args


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="rlvr", description="Reinforcement learning with verifiable rewards, on Ray."
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return parser
