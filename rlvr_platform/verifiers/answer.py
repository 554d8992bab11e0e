"""Where in a completion its final answer stands. Every scan is linear in the completion."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAIL = 4096
"""Characters at the end in which an answer without a box or a tag is looked for."""
_BOX_TOKENS = re.compile(r"\\+(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_STATEMENT = re.compile(r"answer\s*(?:\*\*)?\s*(?:is\s*:?|:|=)\s*(?:\*\*)?", re.IGNORECASE)
_DELIMITER = re.compile(r"\$|\\\(|\\\[")
_PROSE = re.compile(r"(?<![\\{a-zA-Z])[a-zA-Z]{2,}[ ,.:]+[a-zA-Z]{2,}")


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer of a completion."""

    text: str
    """The answer as it stands there, white space and trailing punctuation removed."""
    rule: str
    """Which form it has: box, answer tag, ####, answer statement, last expression."""
    context: str
    """What a parser should read: `text` in a box, or the words around it when it is prose."""


def final_answer(completion: str) -> Answer | None:
    """The final answer, in this order of preference: the last box that is not empty; an answer
    tag; the text after ####; a statement "the answer is ..."; the end of the completion.

    Only what follows the reasoning block counts. None when nothing follows it, or when the
    completion opens a box or a tag and never puts an answer into one.
    """
    text = _after_reasoning(completion)
    if "\\boxed" in text:
        content = last_box(text)
        return _bounded(content, "box") if content else None
    if "<answer>" in text:
        return _bounded(_last_tag(text), "answer tag")
    if "####" in text:
        return _bounded(text[text.rindex("####") + 4 :].strip().split("\n")[0], "####")
    return _stated(text[-_TAIL:].strip())


def boxed(text: str) -> str:
    """`text` as the final answer of a completion."""
    return f"\\boxed{{{text}}}"


def trim(text: str) -> str:
    """Without white space, bold marks, and the full stop that ends a sentence."""
    return text.lstrip("* \t\n").rstrip("*.,;: \t\n")


def last_box(text: str) -> str:
    r"""Content of the last \boxed{...} that closes and is not empty; empty when there is none."""
    open_braces: list[int] = []
    start, content = -1, ""
    for token in _BOX_TOKENS.finditer(text):
        if token[0] == "}" and open_braces:
            begin = open_braces.pop()
            if begin > start and text[begin : token.start()].strip():
                start, content = begin, text[begin : token.start()]
        elif token[0] == "{":
            open_braces.append(-1)
        elif token[0].endswith("{") and token[0] != "\\{":
            open_braces.append(token.end())
    return content


def _after_reasoning(completion: str) -> str:
    _, closed, after = completion.rpartition("</think>")
    text = after if closed else completion
    return text.partition("<think>")[0]


def _last_tag(text: str) -> str:
    before, closed, _ = text.rpartition("</answer>")
    return before.rpartition("<answer>")[2] if closed else ""


def _bounded(content: str, rule: str) -> Answer | None:
    text = trim(content)
    if not text:
        return None
    readable = rule == "box" or not (_PROSE.search(text) or _DELIMITER.search(text))
    return Answer(text, rule, boxed(text) if readable else text)


def _stated(text: str) -> Answer | None:
    statements = list(_STATEMENT.finditer(text))
    if not statements:
        return Answer(text, "last expression", text) if text else None
    statement = statements[-1]
    stated = _bounded(text[statement.end() :].strip().split("\n")[0], "answer statement")
    if stated is None or stated.context == boxed(stated.text):
        return stated
    return Answer(stated.text, stated.rule, text[statement.start() :])
