"""JSON as the standard has it: no NaN, no repeated keys, no number beyond a double."""

from __future__ import annotations

import json
import math
from typing import Any

_DEEPEST = 200
"""Levels of nesting; far below Python's own limit, so that reading cannot end in one."""


def parse_json(text: str) -> Any:
    """The value that `text` is. Raises ValueError when it is anything but one JSON value."""
    try:
        value = json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_distinct,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _bound_depth(value)
    return value


def fenced(text: str) -> str:
    """The last fenced block of `text`, or all of `text` when it has none."""
    before, closed, _ = text.rpartition("```")
    _, opened, block = before.rpartition("```")
    if not (closed and opened):
        return text.strip()
    first, newline, rest = block.partition("\n")
    named = newline and first.strip().casefold() in ("", "json")
    return (rest if named else block).strip()


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON value")


def _finite(literal: str) -> float:
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(f"the number {literal[:40]} is out of range")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("an object with a repeated key")
    return entries


def _bound_depth(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [child for entry in level for child in _children(entry)]
        if not level:
            return
    raise ValueError(f"nested more than {_DEEPEST} levels deep")


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
