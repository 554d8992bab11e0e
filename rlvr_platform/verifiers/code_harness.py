"""The tests' side of assert tests: runs them in a process that the solution never enters.

Names that the tests do not define stand for the solution's, which live in another process; what
they give is compared here. Runs inside the sandbox: standard library only.
"""

from __future__ import annotations

import ast
import builtins
import collections
import decimal
import fractions
import importlib
import json
import math
import os
import socket
import symtable
import sys
import typing
from typing import Any

from rlvr_platform.verifiers.code_remote import BrokenTestsError, Solution, SolutionError
from rlvr_platform.verifiers.code_wire import WireError

_PRELUDE: dict[str, Any] = {
    **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Set", "Tuple")},
    **{name: getattr(math, name) for name in ("inf", "isclose", "nan")},
    **{
        name: getattr(collections, name)
        for name in ("Counter", "OrderedDict", "defaultdict", "deque")
    },
    "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction,
}
"""Names that tests use on the assumption that somebody imported them."""


def run_tests(channel: socket.socket, source: str) -> None:
    """Write a line of JSON, {outcome, rule}, outcome one of passed, failed, broken."""
    result = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    spec = json.loads(source)
    try:
        outcome, rule = _judge(Solution(channel), spec["tests"], spec["entry"])
    except BrokenTestsError as error:
        outcome, rule = "broken", str(error)
    with result:
        json.dump({"outcome": outcome, "rule": rule}, result)


def _judge(solution: Solution, tests: list[str], entry: str) -> tuple[str, str]:
    texts = [*tests, *_conventional_calls(tests, entry)]
    codes = [compile(text, "tests.py", "exec") for text in texts]
    wanted = _names_wanted(texts, entry)
    try:
        solution.load()
        namespace = {"__name__": "tests", **_bindings(solution, wanted, tests, entry)}
    except (SolutionError, EOFError, WireError) as error:
        return "failed", f"the solution does not load: {error}"
    for number, code in enumerate(codes, start=1):
        try:
            exec(code, namespace)
        except ModuleNotFoundError as error:
            if error.name:
                raise BrokenTestsError(f"test {number} imports {error.name}") from None
            return "failed", f"test {number}: {error}"
        except BrokenTestsError:
            raise
        except BaseException as error:
            return "failed", f"test {number}: {type(error).__name__} {error}".strip()[:300]
    return "passed", f"all {len(tests)} tests passed"


def _conventional_calls(tests: list[str], entry: str) -> list[str]:
    """Calls of top-level `check(candidate)` and `test_*()` functions that nobody calls."""
    trees = [_parse(number, text) for number, text in enumerate(tests, start=1)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    if not any(isinstance(node, ast.Assert) for node in nodes):
        raise BrokenTestsError("the tests assert nothing")
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    functions = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    calls = []
    for function in (function for function in functions if function.name not in used):
        if function.name == "check" and entry:
            calls.append(f"check({entry})")
        elif function.name.startswith("test") and not function.args.args:
            calls.append(f"{function.name}()")
        else:
            raise BrokenTestsError(f"the tests never call their function {function.name}")
    return calls


def _parse(number: int, text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BrokenTestsError(f"test {number} is not Python: {error}") from None


def _names_wanted(texts: list[str], entry: str) -> set[str]:
    """Global names that the tests read and do not bind."""
    bound: set[str] = set()
    read: set[str] = set()
    for text in texts:
        top = symtable.symtable(text, "tests.py", "exec")
        for symbol in top.get_symbols():
            if symbol.is_assigned() or symbol.is_imported():
                bound.add(symbol.get_name())
        read |= _globals_read(top)
    wanted = read - bound
    attributes = {
        node.attr
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
    }
    if entry and not {entry, entry.partition(".")[0]} & (wanted | attributes):
        raise BrokenTestsError(f"the tests never use {entry}")
    return {name for name in wanted if name == entry or not hasattr(builtins, name)}


def _globals_read(table: symtable.SymbolTable) -> set[str]:
    top = table.get_type() == "module"
    names = {
        symbol.get_name()
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (top or symbol.is_global())
    }
    return names.union(*map(_globals_read, table.get_children()))


def _bindings(solution: Solution, wanted: set[str], tests: list[str], entry: str) -> dict[str, Any]:
    """Values of the names wanted: of the library where the tests mean it, else the solution's."""
    found: dict[str, Any] = {}
    modules = _modules_meant(tests)
    for name in sorted(wanted):
        if name != entry and name in _PRELUDE:
            found[name] = _PRELUDE[name]
        elif name != entry and name in modules:
            found[name] = importlib.import_module(name)
        else:
            found.update(solution.named(name))
    return found


def _modules_meant(tests: list[str]) -> set[str]:
    """Library modules whose name the tests use for nothing but attribute access."""
    names: collections.Counter[str] = collections.Counter()
    bases: collections.Counter[str] = collections.Counter()
    for text in tests:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Name):
                names[node.id] += 1
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                bases[node.value.id] += 1
    return {name for name in bases if bases[name] == names[name]} & sys.stdlib_module_names
