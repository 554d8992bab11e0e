"""Multiple choice: the option that a completion states as its answer, never a letter of prose."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_platform.config.verifiers_more import ChoiceVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.text_answer import after_reasoning, text_answer

_TAIL = 4096
"""Characters at the end in which a statement is looked for."""
_NOUN = r"(?:answer|choice|option|solution)"
_STATEMENT = re.compile(
    r"(?P<wrong>\b(?:incorrect|wrong|false|worst|tempting|other)\s+)?"
    rf"\b{_NOUN}(?:\s+(?:{_NOUN}|to\s+[^\n.:;]{{1,80}}?))?[*_\s]*"
    r"(?::|=|\b(?:is|was|would\s+be|should\s+be|must\s+be|will\s+be)\b\s*:?)"
    r"|\u7b54\u6848\s*(?:\u662f|\u4e3a|:)?"
    r"|\b(?:I|we)(?:'ll|\s+will|\s+would)?\s+(?:choose|pick|select|go\s+with)\b\s*:?",
    re.IGNORECASE,
)
_REVERSED = re.compile(
    r"(?P<before>\b(?:not|nor|neither|than|if|whether)\s+)?"
    r"(?:(?P<opens>^|[.!?:,\n]\s*|\b(?:so|thus|therefore|hence|that)\s+)"
    r"|\b)(?P<noun>(?:option|choice|answer)\s+)?"
    r"[*(]*(?P<label>[^\s*()]{1,3})[*)]*\s+is\s+(?:therefore\s+|clearly\s+|thus\s+)?"
    r"(?:(?:the\s+)?(?:correct|right|best)\s+(?:answer|option|choice|one)\b|the\s+answer\b"
    r"|(?P<bare>(?:correct|right)(?=\s*(?:[.!\n]|\Z))))",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:[\s:*_`\"'$]+|\\?\(|\[|\{|<(?!/)|(?:the|option|choice|answer|letter|indeed|clearly|"
    r"definitely|probably|simply|likely|most\s+likely|therefore|thus|correct|is)\b[ :]*)*",
    re.IGNORECASE,
)
_WRAPPER = re.compile(r"\\(?:text|textbf|textrm|textit|mathrm|mathbf|mathsf|mbox|bf|rm)\b\s*")
_OTHER = re.compile(r"([A-Z])[\s.,:;!)\]}>*_$]*")
"""A letter that is no label, where a label would stand."""
_CLOSING = " \t*_`\"'$)]}>\\"
_SEPARATOR = re.compile(
    r"\s*(?:[/,|&+]|\bor\b|\band\b)\s*(?:(?:maybe|perhaps|possibly|even)\b\s*)?[(\[*$]*\s*",
    re.IGNORECASE,
)
_AFTER_LABEL = re.compile(r"^[\s.:)\]*]*(?:[-\u2013\u2014]\s+)?")
_SENTENCE = re.compile(r"[.;!?](?:\s|$)")
_CONNECTIVE = re.compile(r"\s+(?:because|since|as|due|for|given|which|is|or|and)\b", re.IGNORECASE)
_WORDS = {"A", "I"}
"""Labels that are English words too."""


@dataclass(frozen=True, slots=True)
class Stated:
    """The labels that a completion states, and where."""

    labels: tuple[str, ...]
    text: str
    rule: str


class MultipleChoice:
    """The stated option is the gold option; several different ones are wrong."""

    def __init__(self, config: ChoiceVerifier) -> None:
        self._config = config

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when the choices cannot be read, or gold is none of them."""
        choices = self._choices(options)
        wanted = self._gold(gold, choices)
        stated = _stated(prediction, choices)
        if stated is None:
            return Finding(Outcome.NO_ANSWER, "", "no choice is stated as the answer")
        if len(stated.labels) > 1:
            return Finding(Outcome.WRONG, stated.text, f"{stated.rule}, several choices")
        outcome = Outcome.CORRECT if stated.labels == (wanted,) else Outcome.WRONG
        return Finding(outcome, stated.labels[0], stated.rule)

    def _choices(self, options: Mapping[str, Any]) -> dict[str, str]:
        """Text by label; the text is empty where only labels are known."""
        column = options.get(self._config.column, self._config.labels)
        if isinstance(column, Mapping) and set(column) == {"label", "text"}:
            column = dict(zip(column["label"], column["text"], strict=True))
        if isinstance(column, Mapping):
            choices = {str(label): str(text) for label, text in column.items()}
        else:
            choices = self._listed([str(entry) for entry in column])
        if len(choices) < 2 or any(not label.strip() for label in choices):
            raise ValueError(f"{len(choices)} choices, wanted two or more with labels")
        return choices

    def _listed(self, entries: Sequence[str]) -> dict[str, str]:
        if len(set(entries)) == len(entries) and all(len(e) == 1 and e.isalpha() for e in entries):
            return dict.fromkeys(entries, "")
        labels = self._config.labels
        if len(entries) > len(labels):
            raise ValueError(f"{len(entries)} choices but {len(labels)} labels, set `labels`")
        return dict(zip(labels, entries, strict=False))

    def _gold(self, gold: str, choices: Mapping[str, str]) -> str:
        if self._config.gold == "index":
            return list(choices)[_index(gold, len(choices))]
        label = gold.strip().strip("().")
        found = [label] if label in choices else _with_text(gold, choices)
        if len(found) != 1:
            raise ValueError(f"the gold answer {gold[:80]!r} is not one of the choices")
        return found[0]


def _index(gold: str, count: int) -> int:
    if not (gold.strip().isdecimal() and int(gold) < count):
        raise ValueError(f"the gold answer {gold[:80]!r} is no index from 0 to {count - 1}")
    return int(gold)


def _stated(prediction: str, choices: Mapping[str, str]) -> Stated | None:
    answer = text_answer(prediction)
    if answer.marked:
        text = _compatible(answer.text[:_TAIL])
        labels = _read(text, choices)
        return Stated(labels, text, answer.rule) if labels else None
    after = after_reasoning(prediction)
    text = _compatible(after[-_TAIL:])
    if len(after) < _TAIL and (whole := _read(text, choices, alone=True)):
        return Stated(whole, text, "whole completion")
    return _statement(text, choices) or _line(text, choices)


def _compatible(text: str) -> str:
    """Full-width letters and marks as plain ones."""
    return unicodedata.normalize("NFKC", text)


def _statement(text: str, choices: Mapping[str, str]) -> Stated | None:
    """The last statement that names a choice."""
    found: list[tuple[int, Stated]] = []
    for match in _STATEMENT.finditer(text):
        line = text[match.end() :].lstrip(" \t\n*:").partition("\n")[0]
        if not match["wrong"] and (labels := _read(line, choices)):
            found.append((match.start(), Stated(labels, line.strip()[:200], "answer statement")))
    for match in _REVERSED.finditer(text):
        placed = not match["bare"] or match["noun"] or match["opens"] is not None
        if match["label"] in choices and placed and not match["before"]:
            found.append((match.start(), Stated((match["label"],), match[0], "answer statement")))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def _line(text: str, choices: Mapping[str, str]) -> Stated | None:
    """A choice on a line of its own; several lines must agree."""
    lines = [line for line in text.split("\n") if line.strip()]
    labels = dict.fromkeys(label for line in lines for label in _read(line, choices, alone=True))
    return Stated(tuple(labels), "\n".join(labels), "line of its own") if labels else None


def _read(text: str, choices: Mapping[str, str], alone: bool = False) -> tuple[str, ...]:
    """The different labels at the start of `text`; `alone`: nothing else may follow."""
    unwrapped = _WRAPPER.sub("", text)
    plain = _LEAD.sub("", unwrapped, count=1)
    labels, rest = _leading_labels(plain, choices)
    if labels and not rest.strip(_CLOSING + ".,;:!"):
        return tuple(dict.fromkeys(labels))
    for part in (unwrapped, plain, *_SENTENCE.split(unwrapped, maxsplit=1)[:1]):
        if by_text := _with_text(part, choices):
            return tuple(by_text)
    named = _with_text(_AFTER_LABEL.sub("", rest, count=1), choices)
    if not labels and (other := _OTHER.fullmatch(plain)):
        return (other[1],)
    if not labels or (alone and not named):
        return ()
    return tuple(dict.fromkeys([*labels, *named]))


def _leading_labels(text: str, choices: Mapping[str, str]) -> tuple[list[str], str]:
    """Labels that `text` starts with, e.g. of "A or B because", and what follows them."""
    labels: list[str] = []
    while (label := _label_at(text, choices)) is not None:
        labels.append(label)
        text = text[len(label) :].lstrip(_CLOSING)
        separator = _SEPARATOR.match(text)
        following = text[separator.end() :] if separator else ""
        if _label_at(following, choices) is None:
            break
        text = following
    return labels, text


def _label_at(text: str, choices: Mapping[str, str]) -> str | None:
    for label in choices:
        start, rest = text[: len(label)], text[len(label) :]
        if start.casefold() == label.casefold() and _ends_label(start == label, label, rest):
            return label
    return None


def _ends_label(same_case: bool, label: str, rest: str) -> bool:
    if not rest.strip(_CLOSING + ".,;:!"):
        return True
    if rest[0].isalnum() or re.match(r"['\u2019_]|[-.,]\w", rest):
        return False
    if not same_case:
        return rest[0] in ")]"
    prose = label in _WORDS and re.match(r"\s+\w", rest)
    return not prose or bool(_CONNECTIVE.match(rest))


def _with_text(text: str, choices: Mapping[str, str]) -> list[str]:
    """The one label whose text is `text`; else case, white space and closing marks aside."""
    wanted, same = _normal(text), " ".join(text.split())
    exact = [label for label, entry in choices.items() if same and entry == same]
    alike = [label for label, entry in choices.items() if wanted and _normal(entry) == wanted]
    return exact or (alike if len(alike) == 1 else [])


def _normal(text: str) -> str:
    return " ".join(text.casefold().split()).strip(_CLOSING + ".,;:!?([{<")
