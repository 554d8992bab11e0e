"""Rows to grade: read from lines of JSON, and graded in order while more are read."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Queue
from typing import Any, Generic, Protocol, TypeVar

from rlvr_platform.data.columns import gold_text
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.types import Verdict
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

FIELDS: Mapping[str, str] = {
    "id": "id",
    "gold": "gold",
    "prediction": "prediction",
    "label": "expected",
    "class": "class",
    "options": "options",
}
"""What a row holds, and the column it stands in unless a field map says otherwise."""
PARTS = "prediction_parts"
"""Column that may stand in for a prediction: [[text, repetitions], ..], for very long ones."""
_IN_FLIGHT = 256
"""Rows read ahead of the oldest one whose verdict is not out."""


class MalformedRow(Exception):
    """Why a row cannot be graded."""


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A completion to grade."""

    id: Any
    item: GradeItem


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRow:
    """A completion whose verdict is known."""

    id: Any
    item: GradeItem
    label: bool
    """Whether the completion is correct."""
    kind: str
    """The class of case it belongs to."""


class HasItem(Protocol):
    """What can be graded."""

    @property
    def item(self) -> GradeItem: ...


R = TypeVar("R", bound=HasItem)
L = TypeVar("L", Row, LabelledRow)


def parse_field_map(text: str) -> dict[str, str]:
    """`FIELDS` with the columns that `id=NAME,gold=NAME,..` sets. Raises ConfigError."""
    fields = dict(FIELDS)
    for pair in filter(None, text.split(",")):
        field, _, column = (part.strip() for part in pair.partition("="))
        if field not in FIELDS or not column:
            raise ConfigError(
                f"cannot read {pair!r} in the field map",
                f"field=column, separated by commas; fields: {', '.join(FIELDS)}",
            )
        fields[field] = column
    return fields


def parse_row(line: bytes, fields: Mapping[str, str]) -> Row:
    """A row from a line of JSON. Raises MalformedRow."""
    record = _record(line, fields)
    return Row(record[fields["id"]], _item(record, fields))


def parse_labelled(line: bytes, fields: Mapping[str, str]) -> LabelledRow:
    """A labelled row from a line of JSON; rows without a class are of class `all`.

    Raises MalformedRow.
    """
    record = _record(line, fields)
    label = record.get(fields["label"])
    if not isinstance(label, int) or label not in (0, 1):
        raise MalformedRow(f"{fields['label']} is {label!r:.80}, wanted true or false")
    kind = str(record.get(fields["class"], "all"))
    return LabelledRow(record[fields["id"]], _item(record, fields), bool(label), kind)


def _record(line: bytes, fields: Mapping[str, str]) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise MalformedRow(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise MalformedRow(f"a JSON {type(record).__name__}, wanted an object")
    needed = [fields[name] for name in ("id", "gold", "prediction")]
    there = {fields["prediction"]} if PARTS in record else set()
    if missing := [column for column in needed if column not in record.keys() | there]:
        raise MalformedRow(f"{', '.join(missing)} missing, wanted {', '.join(needed)}")
    return record


def _item(record: dict[str, Any], fields: Mapping[str, str]) -> GradeItem:
    prediction = _long(record[PARTS]) if PARTS in record else record[fields["prediction"]]
    if not isinstance(prediction, str):
        wrong = type(prediction).__name__
        raise MalformedRow(f"{fields['prediction']} is {wrong}, wanted a string")
    return GradeItem(prediction, _gold(record, fields["gold"]), _options(record, fields["options"]))


def _long(parts: Any) -> str:
    try:
        return "".join(text * count for text, count in parts)
    except (TypeError, ValueError):
        raise MalformedRow(f"{PARTS} is {parts!r:.80}, wanted [[text, count], ..]") from None


def _gold(record: dict[str, Any], column: str) -> str:
    gold = record[column]
    text = json.dumps(gold) if isinstance(gold, dict | list) else gold_text(gold)
    if text is None:
        raise MalformedRow(f"{column} is {gold!r:.80}, wanted text, a number, a list or an object")
    return text


def _options(record: dict[str, Any], column: str) -> dict[str, Any]:
    """An object is the options; anything else is one option, named like its column."""
    value = record.get(column)
    if value is None:
        return {}
    return value if isinstance(value, dict) else {column: value}


class Lines(Generic[L]):
    """The rows of a file; what is malformed goes to standard error by line number."""

    def __init__(
        self,
        lines: Iterable[bytes],
        parse: Callable[[bytes, Mapping[str, str]], L],
        fields: Mapping[str, str],
    ) -> None:
        self.malformed = 0
        self._lines, self._fields = lines, fields
        self._parse: Callable[[bytes, Mapping[str, str]], L] = parse

    def __iter__(self) -> Iterator[L]:
        """Raises InputError when reading fails."""
        try:
            for number, line in enumerate(self._lines, start=1):
                if line.strip():
                    yield from self._rows(number, line)
        except OSError as error:
            raise InputError(f"cannot read on: {error}") from None

    def _rows(self, number: int, line: bytes) -> list[L]:
        try:
            return [self._parse(line, self._fields)]
        except MalformedRow as error:
            self.malformed += 1
            print(f"line {number}: {error}", file=sys.stderr)
            return []


def grade_rows(
    rows: Iterable[R], pools: Sequence[VerifierPool]
) -> Iterator[tuple[R, list[Verdict]]]:
    """Each row with a verdict from each pool, in order.

    Rows are read in a thread of its own, so that verdicts come while the input is slow. What
    reading raises is raised here.
    """
    queue: Queue[tuple[R, list[Future[list[Verdict]]]] | Exception | None] = Queue(_IN_FLIGHT)

    def read() -> None:
        try:
            for row in rows:
                queue.put((row, [pool.submit([row.item]) for pool in pools]))
            queue.put(None)
        except Exception as error:
            queue.put(error)

    threading.Thread(target=read, name="grade-reader", daemon=True).start()
    while (entry := queue.get()) is not None:
        if isinstance(entry, Exception):
            raise entry
        row, futures = entry
        yield row, [future.result()[0] for future in futures]
