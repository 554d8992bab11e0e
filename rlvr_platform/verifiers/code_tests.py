"""The gold answer of a programming task: its tests, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

FORMS = (
    '{"type": "stdin", "tests": [{"in": text, "out": text}, ...]} or '
    '{"inputs": [text, ...], "outputs": [text, ...]} or '
    '{"type": "assert", "tests": [python, ...], "entry"?: name, "setup"?: python}'
)


@dataclass(frozen=True, slots=True)
class StdinTests:
    """A program reads standard input and writes standard output."""

    cases: tuple[tuple[str, str], ...]
    """(input, expected output), at least one."""


@dataclass(frozen=True, slots=True)
class AssertTests:
    """Python statements call what the solution defines and assert what it returns."""

    statements: tuple[str, ...]
    """At least one."""
    entry: str
    """The function or class asked for; empty when the task does not say."""
    setup: str
    """Runs before the solution, in its process, e.g. classes that it may use."""


def read_tests(gold: str) -> StdinTests | AssertTests:
    """Raises ValueError, which says what is wrong, for anything but FORMS with a test in it."""
    try:
        spec = json.loads(gold)
    except (ValueError, RecursionError) as error:
        raise _bad(f"not JSON ({error})") from None
    if not isinstance(spec, dict):
        raise _bad(f"a JSON {type(spec).__name__}")
    if "type" not in spec and {"inputs", "outputs"} <= spec.keys():
        spec = _from_columns(spec)
    kind = spec.get("type")
    if kind not in ("stdin", "assert"):
        raise _bad(f"type {kind!r}")
    tests = spec.get("tests")
    if isinstance(tests, str):
        tests = [tests]
    if not isinstance(tests, list) or not tests:
        raise _bad("no tests")
    if kind == "stdin":
        cases = tuple(_case(number, test) for number, test in enumerate(tests, 1))
        if not any(expected.strip() for _, expected in cases):
            raise _bad("no test expects any output")
        return StdinTests(cases)
    if not all(isinstance(test, str) for test in tests):
        raise _bad("a test that is not a string")
    return AssertTests(tuple(tests), _text(spec, "entry"), _text(spec, "setup"))


def _from_columns(spec: dict[str, Any]) -> dict[str, Any]:
    if spec.get("fn_name"):
        raise _bad("fn_name; calls are written as assert statements")
    columns = spec["inputs"], spec["outputs"]
    if not all(isinstance(column, list) for column in columns) or len({*map(len, columns)}) > 1:
        raise _bad("inputs and outputs are not lists of one length")
    return {
        "type": "stdin",
        "tests": [{"in": given, "out": out} for given, out in zip(*columns, strict=True)],
    }


def _case(number: int, test: Any) -> tuple[str, str]:
    case = (test.get("in"), test.get("out")) if isinstance(test, dict) else (None, None)
    if not (isinstance(case[0], str) and isinstance(case[1], str)):
        raise _bad(f"test {number} without the strings in and out")
    return case[0], case[1]


def _text(spec: dict[str, Any], name: str) -> str:
    value = spec.get(name) or ""
    if not isinstance(value, str):
        raise _bad(f"{name} is not a string")
    return value


def _bad(what: str) -> ValueError:
    return ValueError(f"the gold answer is no set of tests: {what}; wanted {FORMS}")
