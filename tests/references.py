"""What a page of the documentation names as `path::name`, and what is defined there."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def references(page: str) -> list[tuple[str, str]]:
    """Every `path::name`, sorted; `::name` is in the file named before it in its table cell."""
    return sorted(set(_references(page)))


def _references(page: str) -> Iterator[tuple[str, str]]:
    for line in page.splitlines():
        for cell in re.split(r"(?<!\\)\|", line):
            path = ""
            for named, name in re.findall(r"`([\w./-]*)::([\w.]+)`", cell):
                path = named or path
                yield path, name


@cache
def names_of(path: str) -> set[str]:
    """Functions, classes, `Class.method` and assigned names of a Python file."""
    found: set[str] = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [
                n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found
