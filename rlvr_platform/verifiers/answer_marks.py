"""What a completion marks as its answer: boxes and answer tags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from rlvr_platform.verifiers.math_text import trim

_TAIL = 4096
"""Characters at the end in which a box without braces is looked for."""
# A lost backslash, or \b read as a backspace, still marks a box.
_BOX = r"(?:(?<!\\)\\+(?:boxed|fbox|framebox)|(?<![a-zA-Z\\])boxed(?=\s*\{)|\x08oxed)"
ANY_BOX = re.compile(_BOX)
_BOX_TOKENS = re.compile(_BOX + r"\s*\{|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\boxed\s*([^\s{}$\\]+)")
TAG = re.compile(r"<(/?)(?:final[_ ]?)?answer>|\[(/?)answer\]", re.IGNORECASE)
_JOINT = re.compile(
    r"[\s$]*(?:[,;]|[,;]?\s*(?:and|or)(?:\s+(?:maybe|perhaps|possibly|also))?"
    r"|,?\s*\\text\s*\{\s*(?:and|or)\s*\})?[\s$]*"
)


def boxed(text: str) -> str:
    """`text` as the final answer of a completion."""
    return f"\\boxed{{{text}}}"


def last_box(text: str) -> str:
    r"""Content of the last \boxed{...} that closes and is not empty; empty when there is none."""
    found = boxes(text)
    return found[-1].content if found else ""


@dataclass(frozen=True, slots=True)
class Marked:
    """What a box or a pair of tags holds."""

    start: int
    content: str
    end: int


def boxes(text: str) -> list[Marked]:
    """The boxes that close and are not empty, in order; of nested ones the innermost."""
    opened: list[tuple[int, int] | None] = []
    found: list[Marked] = []
    for token in _BOX_TOKENS.finditer(text):
        if token[0] == "}" and opened:
            begin = opened.pop()
            if begin and not (found and found[-1].start > begin[0]):
                content = text[begin[1] : token.start()]
                found += [Marked(begin[0], content, token.end())] if content.strip() else []
        elif token[0] == "{":
            opened.append(None)
        elif token[0].endswith("{") and token[0] != "\\{":
            opened.append((token.start(), token.end()))
    return found


def last_joined(text: str, marked: list[Marked]) -> str:
    """Content of the last one, with those that it is joined to; nothing when it is empty."""
    if not marked or not trim(marked[-1].content):
        return ""
    contents: list[str] = []
    for one, after in zip(reversed(marked), [None, *reversed(marked)], strict=False):
        if after and not _JOINT.fullmatch(text[one.end : after.start][:80]):
            break
        contents.insert(0, trim(one.content))
    return ", ".join(dict.fromkeys(filter(None, contents)))


def bare_box(text: str) -> str:
    """What follows \\boxed without braces, as in \\boxed 5."""
    found = "" if "\\boxed{" in text else _BARE_BOX.findall(text[-_TAIL:])
    return found[-1] if found else ""


def tagged(text: str) -> list[Marked]:
    """The closed pairs of answer tags, in order."""
    tags = list(TAG.finditer(text))
    return [
        Marked(begin.start(), text[begin.end() : end.start()], end.end())
        for begin, end in pairwise(tags)
        if (end[1] or end[2]) and not (begin[1] or begin[2])
    ]
