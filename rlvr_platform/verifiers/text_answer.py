"""Final answers that need not be mathematics: words, letters, JSON, expressions over lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlvr_platform.verifiers.answer_marks import last_box

_TAIL = 4096
"""Characters at the end in which an answer without a mark is looked for."""
_STATEMENT = re.compile(r"\banswer[*_\s]*(?:\bis\b|:|=)[*_\s:]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """Where a completion's answer stands."""

    text: str
    """As it stands there, surrounding white space aside; empty when a mark holds nothing."""
    rule: str
    """box, answer tag, ####, answer statement, or last line."""

    @property
    def marked(self) -> bool:
        """Whether the completion itself set it apart."""
        return self.rule in ("box", "answer tag", "####")


def after_reasoning(completion: str) -> str:
    """What follows the last reasoning block; nothing when one is opened and never closed."""
    text = re.split(r"</think(?:ing)?>", completion)[-1]
    return re.split(r"<think(?:ing)?>", text, maxsplit=1)[0].strip()


def text_answer(completion: str) -> TextAnswer:
    """The answer, in this order of preference: the last box; the last answer tag; the line after
    the last ####; the line of the last statement "the answer is ..."; the last line.
    """
    text = after_reasoning(completion)
    if "\\boxed" in text:
        return TextAnswer(last_box(text).strip(), "box")
    if "<answer>" in text:
        before, closed, _ = text.rpartition("</answer>")
        return TextAnswer(before.rpartition("<answer>")[2].strip() if closed else "", "answer tag")
    if "####" in text:
        return TextAnswer(text.rpartition("####")[2].strip().partition("\n")[0].strip(), "####")
    statements = list(_STATEMENT.finditer(text[-_TAIL:]))
    if statements:
        line = text[-_TAIL:][statements[-1].end() :].partition("\n")[0]
        return TextAnswer(line.rstrip("* \t."), "answer statement")
    return TextAnswer(text.rpartition("\n")[2].strip().rstrip("."), "last line")
