"""From rows with named columns to records, with every bad row named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rlvr_platform.config.data import Columns
from rlvr_platform.data.records import Record
from rlvr_platform.errors import ConfigError, InputError

_SHOWN = 20
"""Places listed for one kind of problem."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that could not even be read."""

    reason: str


Row = Mapping[str, Any] | Broken


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one source, with the words for messages."""

    name: str
    """What the user called it, e.g. a path."""
    unit: str
    """`line` or `row`; counted from 1."""
    rows: Iterable[tuple[int, Row]]
    """Number and content of each row."""


class _BadRow(Exception):
    """Why a row gives no record."""


def to_records(table: Table, columns: Columns) -> list[Record]:
    """A record a row. Raises InputError that names every bad row, by kind of problem."""
    pattern = _compile(columns.gold_pattern)
    records: list[Record] = []
    problems: dict[str, list[int]] = {}
    for number, row in table.rows:
        try:
            records.append(_record(row, columns, pattern, f"{table.name} {table.unit} {number}"))
        except _BadRow as problem:
            problems.setdefault(str(problem), []).append(number)
    if problems:
        rows = len(records) + sum(map(len, problems.values()))
        raise InputError(
            f"{table.name} cannot be used:\n" + "\n".join(_describe(problems, table.unit, rows)),
            f"text in column {columns.prompt!r} and an answer in column {columns.gold!r}",
            "correct those rows, or set columns.prompt, columns.gold and columns.gold_pattern",
        )
    if not records:
        raise InputError(f"{table.name} holds no records", f"at least one {table.unit}")
    return records


def gold_text(value: Any) -> str | None:
    """A reference answer as text: 72.0 becomes "72"; None for what is no finite answer."""
    match value:
        case bool() | str():
            return str(value).strip() or None
        case int():
            return str(value)
        case float() | Decimal() if math.isfinite(value):
            whole = int(value)
            return str(whole) if whole == value else format(Decimal(str(value)), "f").rstrip("0")
        case _:
            return None


def _record(row: Row, columns: Columns, pattern: re.Pattern[str] | None, origin: str) -> Record:
    if isinstance(row, Broken):
        raise _BadRow(row.reason)
    for column in (columns.prompt, columns.gold, *columns.options):
        if column not in row:
            there = ", ".join(sorted(map(str, row))) or "none"
            raise _BadRow(f"no column {column!r} (columns there: {there})")
    text = row[columns.prompt]
    if not isinstance(text, str) or not text.strip():
        raise _BadRow(f"column {columns.prompt!r} holds no text")
    options = {name: _plain(row[name], name) for name in columns.options}
    return Record(text, _gold(row[columns.gold], columns.gold, pattern), origin, options)


def _plain(value: Any, column: str) -> Any:
    """The value as JSON gives it back: it travels to other processes and into checkpoints."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        kind = type(value).__name__
        raise _BadRow(f"column {column!r} holds a {kind} that JSON cannot carry") from None


def _gold(value: Any, column: str, pattern: re.Pattern[str] | None) -> str:
    gold = gold_text(value)
    if gold is None:
        raise _BadRow(f"column {column!r} holds no text and no finite number")
    if pattern is None:
        return gold
    found = pattern.search(gold)
    answer = (found.group(1) or "").strip() if found else ""
    if not answer:
        raise _BadRow(f"gold_pattern {pattern.pattern!r} finds no answer in column {column!r}")
    return answer


def _compile(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"columns.gold_pattern {pattern!r} is no regular expression: {error}"
        ) from None
    if not compiled.groups:
        raise ConfigError(
            f"columns.gold_pattern {pattern!r} has no group",
            "parentheses around the answer, e.g. '####\\s*(.+)$'",
        )
    return compiled


def _describe(problems: dict[str, list[int]], unit: str, rows: int) -> Iterator[str]:
    for problem, numbers in problems.items():
        yield f"  - {_places(numbers, unit, rows)}: {problem}"


def _places(numbers: Sequence[int], unit: str, rows: int) -> str:
    if len(numbers) == rows and rows > 1:
        return f"every {unit}"
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"{unit}{'s' * (len(numbers) > 1)} {shown}{more}"
