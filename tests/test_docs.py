"""What the documentation tells people to type exists."""

import re
import shlex
from pathlib import Path

import pytest

from rlvr_platform.cli.main import parse

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def fenced_lines(page: Path) -> list[str]:
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


COMMANDS = sorted(
    {
        line[line.index(mark) + len(mark) :]
        for page in PAGES
        for line in fenced_lines(page)
        for mark in ("rlvr ", "python -m rlvr_platform ")
        if line.startswith(mark) or f"-- {mark}" in line
    }
)
TARGETS = sorted(
    {
        target
        for page in PAGES
        for code in [*fenced_lines(page), *re.findall(r"`([^`\n]+)`", page.read_text())]
        for target in re.findall(r"^make ([a-z-]+)", code)
    }
)


def test_there_are_commands_to_check() -> None:
    assert len(COMMANDS) >= 7
    assert {"setup", "train", "test"} <= set(TARGETS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_in_the_documentation_parses(command: str) -> None:
    assert callable(parse(shlex.split(command, comments=True)).run)


@pytest.mark.parametrize("target", TARGETS)
def test_every_make_target_in_the_documentation_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists() or (ROOT / link).exists(), link
