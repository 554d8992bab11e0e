"""Which part of a completion is the program. Every scan is linear in the completion."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?:<answer>[ \t]*)?(?P<mark>`{3,}|~{3,})(?P<tag>[^`\n]*)$")
_PYTHON = re.compile(r"^\W*(?:py|python|python3|py3|pypy3?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Program:
    """A program found in a completion."""

    source: str
    rule: str
    """Where it stood."""


@dataclass(frozen=True, slots=True)
class _Block:
    tag: str
    source: str


def find_program(completion: str, entry: str = "") -> Program | None:
    """The last Python block after the reasoning that defines `entry`, else the last Python block,
    else the last block without a language, else, where nothing is fenced, the text in the last
    answer tag, else the whole text.

    None when there is no program, e.g. when all blocks are in other languages.
    """
    text = _after_reasoning(completion)
    blocks, outside = _split(text)
    blocks = [block for block in blocks if block.source.strip()]
    python = [block for block in blocks if _PYTHON.match(block.tag)]
    untagged = [block for block in blocks if not block.tag]
    for candidates, rule in ((python, "last Python block"), (untagged, "last block")):
        if candidates:
            return Program(_choose(candidates, entry), rule)
    if blocks or not outside.strip():
        return None
    before, tagged, _ = outside.rpartition("</answer>")
    if tagged:
        return Program(before.rpartition("<answer>")[2], "answer tag")
    return Program(outside, "whole completion")


def _choose(blocks: list[_Block], entry: str) -> str:
    if entry.isidentifier():
        defines = re.compile(
            rf"^(?:async[ ]+def|def|class)[ ]+{entry}\b|^{entry}[ ]*=", re.MULTILINE
        )
        blocks = [block for block in blocks if defines.search(block.source)] or blocks
    return blocks[-1].source


def _after_reasoning(completion: str) -> str:
    _, closed, after = completion.rpartition("</think>")
    text = after if closed else completion
    return text.partition("<think>")[0]


def _split(text: str) -> tuple[list[_Block], str]:
    """The fenced blocks, and what is outside of them. A block left open ends with the text."""
    blocks: list[_Block] = []
    outside: list[str] = []
    inside: list[str] = []
    opened: re.Match[str] | None = None
    for line in text.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.match(line)
        if opened is None:
            opened, inside = fence, []
            if fence is None:
                outside.append(line)
        elif fence and _closes(fence, opened):
            blocks.append(_block(opened, inside))
            opened = None
        else:
            inside.append(line)
    if opened:
        inside[-1:] = [line.removesuffix(opened["mark"]) for line in inside[-1:]]
        blocks.append(_block(opened, inside))
    return blocks, "\n".join(outside)


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    """As in CommonMark, where a fence that stands deeper belongs to the text of the block."""
    deeper = len(fence["indent"]) > len(opened["indent"]) + 3
    bare = fence["tag"].strip() in ("", "</answer>")
    return fence["mark"].startswith(opened["mark"]) and bare and not deeper


def _block(opened: re.Match[str], lines: list[str]) -> _Block:
    source = "\n".join(lines) + "\n"
    indented = source.lstrip("\n")[:1].isspace()
    return _Block(opened["tag"].strip(), textwrap.dedent(source) if indented else source)
