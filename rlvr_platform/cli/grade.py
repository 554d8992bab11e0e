"""`rlvr grade`: verdicts for a file or a recorded run, and how far they agree. Without Ray."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from rlvr_platform.cli.verifier_choice import KINDS, Choice, read_choices
from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.types import Verdict
from rlvr_platform.verifiers.labelled import Comparison, Confusion
from rlvr_platform.verifiers.pool import VerifierPool
from rlvr_platform.verifiers.rows import (
    FIELDS,
    Lines,
    grade_rows,
    parse_field_map,
    parse_labelled,
    parse_row,
)

_DESCRIPTION = (
    "Reads lines {id, gold, prediction, options?} and prints a line each, in order: {id, verdict, "
    "reward, extracted, rule, seconds}. With two verifiers it prints how often and where they "
    "disagree instead; with --labelled, the confusion table by class; with --run, which verdicts "
    "of a recorded run change. Exits with 2 when a line was malformed."
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "grade", help="grade completions with a verifier", description=_DESCRIPTION
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", metavar="FILE", nargs="?", help="JSON lines; - for standard input")
    source.add_argument(
        "--labelled",
        metavar="FILE",
        help="JSON lines that also hold expected (true, false), class?",
    )
    source.add_argument("--run", type=Path, metavar="RUN", dest="recorded", help="a run's folder")
    _add_verifiers(parser)
    parser.add_argument("--step", type=int, metavar="N", help="of the run, only this step")
    parser.add_argument(
        "--field-map",
        metavar="FIELD=COLUMN,..",
        help=f"columns with other names; fields: {', '.join(FIELDS)}",
    )
    parser.add_argument("--json", action="store_true", help="print a report as one JSON object")
    parser.set_defaults(run=run)


def _add_verifiers(parser: argparse.ArgumentParser) -> None:
    pool = PoolConfig()
    parser.add_argument(
        "--verifier",
        action=Choice,
        dest="choices",
        required=True,
        choices=sorted(KINDS),
        help="twice to compare two",
    )
    parser.add_argument(
        "--option",
        action=Choice,
        dest="choices",
        metavar="KEY=VALUE",
        help="a setting of the verifier before it; repeatable",
    )
    parser.add_argument(
        "--workers", type=int, default=pool.workers, help="processes of each verifier"
    )
    parser.add_argument(
        "--deadline", type=float, default=pool.deadline_s, help="seconds per completion"
    )


def run(args: argparse.Namespace) -> int:
    """Grade and print; returns 0, or 2 when a line was malformed.

    Raises InputError when the input cannot be read, ConfigError for impossible settings.
    """
    verifiers = read_choices(args.choices)
    _refuse_what_has_no_effect(args, len(verifiers))
    names = [verifier.name for verifier in verifiers]
    pool = _pool(args.workers, args.deadline)
    with ExitStack() as stack:
        rows = _rows(args, stack)
        pools = [
            stack.enter_context(VerifierPool(VerifierConfig(use=verifier.use, pool=pool)))
            for verifier in verifiers
        ]
        graded = grade_rows(rows, pools)
        if args.recorded:
            _print_changes(graded, names[0], args.json)
        elif args.labelled:
            _print_agreement(graded, names, args.json)
        elif len(names) == 2:
            _print_comparison(graded, names, args.json)
        else:
            _print_verdicts(graded)
    return 2 if isinstance(rows, Lines) and rows.malformed else 0


def _refuse_what_has_no_effect(args: argparse.Namespace, verifiers: int) -> None:
    if not args.recorded and args.step is not None:
        raise ConfigError("--step without --run", "--run RUN --step N")
    if args.recorded and args.field_map is not None:
        raise ConfigError("--field-map with --run", "a file, whose columns may have other names")
    if args.recorded and verifiers > 1:
        raise ConfigError("two verifiers with --run", "one, compared with the run's own verdicts")


def _rows(args: argparse.Namespace, stack: ExitStack) -> Iterable[Any]:
    if args.recorded:
        from rlvr_platform.verifiers.recorded import recorded_rows, rollout_files

        return recorded_rows(rollout_files(args.recorded, args.step))
    fields = parse_field_map(args.field_map or "")
    lines = stack.enter_context(_open(args.labelled or args.file))
    return Lines(lines, parse_labelled if args.labelled else parse_row, fields)


def _print_verdicts(graded: Iterable[Any]) -> None:
    for row, (verdict,) in graded:
        print(json.dumps({"id": row.id, **_fields(verdict)}), flush=True)


def _print_agreement(graded: Iterable[Any], names: Sequence[str], as_json: bool) -> None:
    tables, pairs = [Confusion(name) for name in names], Comparison(names[0], names[-1])
    for row, verdicts in graded:
        for table, verdict in zip(tables, verdicts, strict=True):
            table.add(row, verdict)
        pairs.add(row.id, row.item.gold, verdicts[0], verdicts[-1])
    compared = [pairs] if len(names) > 1 else []
    if as_json:
        found = {"verifiers": [table.as_dict() for table in tables]}
        print(json.dumps(found | {"comparisons": [pair.as_dict() for pair in compared]}))
    else:
        _print_lines(*tables, *compared)


def _print_comparison(graded: Iterable[Any], names: Sequence[str], as_json: bool) -> None:
    pairs = Comparison(names[0], names[1])
    for row, (first, second) in graded:
        pairs.add(row.id, row.item.gold, first, second)
    print(json.dumps(pairs.as_dict())) if as_json else _print_lines(pairs)


def _print_changes(graded: Iterable[Any], name: str, as_json: bool) -> None:
    pairs = Comparison("recorded", name)
    for row, (verdict,) in graded:
        pairs.add(row.id, row.item.gold, row.verdict, verdict)
    print(json.dumps(pairs.as_dict())) if as_json else _print_lines(pairs)


def _print_lines(*reports: Confusion | Comparison) -> None:
    for report in reports:
        for line in report.lines():
            print(line)


def _fields(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.outcome.value,
        "reward": verdict.reward,
        "extracted": verdict.extracted,
        "rule": verdict.rule,
        "seconds": round(verdict.seconds, 6),
    }


def _pool(workers: int, deadline_s: float) -> PoolConfig:
    try:
        return PoolConfig(workers=workers, deadline_s=deadline_s)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]}={first['input']!r}: {first['msg']}") from None


def _open(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", "a file of JSON lines") from None
