"""`rlvr grade`: verdicts for a file of completions, without Ray."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import typing
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import Queue
from typing import Any, BinaryIO

from pydantic import ValidationError

from rlvr_platform.config.verifier import AnyVerifier, PoolConfig, VerifierConfig
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.types import Verdict
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

_IN_FLIGHT = 256
"""Lines read ahead of the oldest verdict that is not printed."""
_KINDS = {
    section.model_fields["kind"].default: section
    for section in typing.get_args(typing.get_args(AnyVerifier)[0])
}

_Pending = tuple[Any, "Future[list[Verdict]]"]
"""A line's id and the future of its one verdict."""


class _Malformed(Exception):
    """Why a line cannot be graded."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "grade",
        help="grade completions with a verifier",
        description="Reads lines {id, gold, prediction, options?}; prints a line each, in order: "
        "{id, verdict, reward, extracted, seconds}. Exits with 2 when a line was malformed.",
    )
    pool = PoolConfig()
    parser.add_argument("file", metavar="FILE", help="JSON lines; - for standard input")
    parser.add_argument("--verifier", required=True, choices=sorted(_KINDS))
    parser.add_argument("--workers", type=int, default=pool.workers, help="verifier processes")
    parser.add_argument(
        "--deadline", type=float, default=pool.deadline_s, help="seconds per completion"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Grade a file; returns 0, or 2 when a line was malformed.

    Raises InputError when the file cannot be read, ConfigError for an impossible pool.
    """
    config = _config(args.verifier, args.workers, args.deadline)
    with _open(args.file) as lines, VerifierPool(config) as pool:
        reader = _Reader(lines, pool)
        for identity, future in reader.pending():
            print(_line(identity, future.result()[0]), flush=True)
    return 2 if reader.malformed else 0


class _Reader:
    """Submits lines in a thread of its own, so that verdicts print while input is slow."""

    def __init__(self, lines: BinaryIO, pool: VerifierPool) -> None:
        self.malformed = 0
        self._lines, self._pool = lines, pool
        self._queue: Queue[_Pending | Exception | None] = Queue(_IN_FLIGHT)
        threading.Thread(target=self._read, name="grade-reader", daemon=True).start()

    def pending(self) -> Iterator[_Pending]:
        """Submitted lines in input order. Raises InputError when reading fails."""
        while (entry := self._queue.get()) is not None:
            if isinstance(entry, Exception):
                raise entry
            yield entry

    def _read(self) -> None:
        try:
            for number, line in enumerate(self._lines, start=1):
                if line.strip():
                    self._submit(number, line)
            self._queue.put(None)
        except OSError as error:
            self._queue.put(InputError(f"cannot read on: {error}"))
        except Exception as error:
            self._queue.put(error)

    def _submit(self, number: int, line: bytes) -> None:
        try:
            identity, item = _parse(line)
        except _Malformed as error:
            self.malformed += 1
            print(f"line {number}: {error}", file=sys.stderr)
        else:
            self._queue.put((identity, self._pool.submit([item])))


def _parse(line: bytes) -> tuple[Any, GradeItem]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise _Malformed(f"a JSON {type(record).__name__}, wanted an object")
    missing = [name for name in ("id", "gold", "prediction") if name not in record]
    if missing:
        raise _Malformed(f"{', '.join(missing)} missing, wanted id, gold and prediction")
    for name in ("gold", "prediction"):
        if not isinstance(record[name], str):
            raise _Malformed(f"{name} is {type(record[name]).__name__}, wanted a string")
    options = record.get("options") or {}
    if not isinstance(options, dict):
        raise _Malformed(f"options is {type(options).__name__}, wanted an object")
    return record["id"], GradeItem(record["prediction"], record["gold"], options)


def _line(identity: Any, verdict: Verdict) -> str:
    fields = {
        "id": identity,
        "verdict": verdict.outcome.value,
        "reward": verdict.reward,
        "extracted": verdict.extracted,
        "seconds": round(verdict.seconds, 6),
    }
    return json.dumps(fields)


def _config(kind: str, workers: int, deadline_s: float) -> VerifierConfig:
    try:
        pool = PoolConfig(workers=workers, deadline_s=deadline_s)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]}={first['input']!r}: {first['msg']}") from None
    return VerifierConfig(use=_KINDS[kind](), pool=pool)


def _open(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", "a file of JSON lines") from None
