"""The checks of `format.py`: each a small function of the text, named as instructions name them."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from rlvr_platform.verifiers.answer_marks import last_box
from rlvr_platform.verifiers.json_text import parse_json
from rlvr_platform.verifiers.text_answer import after_reasoning

_WORD = re.compile(r"\S*\w\S*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[^\W_a-z])|[\u3002\uff01\uff1f]|\n+")
_BULLET = re.compile(r"^[ \t]*(?:[-+\u2022]|\*(?!\*))[ \t]+\S", re.MULTILINE)
_RULE_LINE = re.compile(r"^[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$", re.MULTILINE)
_HIGHLIGHT = re.compile(r"\*\*[^\s*][^*\n]*\*\*|(?<!\*)\*[^\s*][^*\n]*\*(?!\*)")
_WHOLE_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
_RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    **dict.fromkeys(("at least", ">="), operator.ge),
    **dict.fromkeys(("at most", "<="), operator.le),
    **dict.fromkeys(("less than", "<"), operator.lt),
    **dict.fromkeys(("more than", ">"), operator.gt),
    **dict.fromkeys(("exactly", "=="), operator.eq),
    "around": lambda count, n: abs(count - n) <= max(round(n * 0.1), 1),
}


@dataclass(frozen=True, slots=True)
class Check:
    """A check with its parameters."""

    name: str
    holds: Callable[[str], bool]
    """Of the whole completion."""


def read_check(entry: Any) -> Check:
    """The check that {"check": name, parameter: value, ...} describes.

    Raises ValueError that names what is unknown, missing or of the wrong kind.
    """
    if not isinstance(entry, Mapping) or not isinstance(entry.get("check"), str):
        raise ValueError(f'a check is {entry!r:.120}, wanted an object with a "check" name')
    name, given = entry["check"], {key: v for key, v in entry.items() if key != "check"}
    function = _WHOLE.get(name) or _ANSWER.get(name)
    if function is None:
        known = ", ".join(sorted([*_WHOLE, *_ANSWER]))
        raise ValueError(f"there is no format check {name!r}, known are {known}")
    if "relation" in given:
        _require_relation(given["relation"])
    holds = functools.partial(function, **_arguments(name, function, given))
    holds("")  # Refuses parameters of the wrong kind before any completion is judged.
    if name in _WHOLE:
        return Check(name, holds)
    return Check(name, lambda completion: holds(after_reasoning(completion)))


def _arguments(name: str, function: Callable[..., bool], given: dict[str, Any]) -> dict[str, Any]:
    try:
        bound = inspect.signature(function).bind("", **given)
    except TypeError as error:
        raise ValueError(f"format check {name!r}: {error}") from None
    kinds = typing.get_type_hints(function)
    for parameter, value in given.items():
        _require_kind(name, parameter, value, kinds[parameter])
    return {key: value for key, value in bound.arguments.items() if key != "text"}


def _require_kind(name: str, parameter: str, value: Any, kind: Any) -> None:
    many = typing.get_origin(kind) is list
    inner = typing.get_args(kind)[0] if many else kind
    inner = typing.get_origin(inner) or inner
    values = value if many and isinstance(value, list) else [value]
    right = isinstance(value, list) == many and all(type(entry) is inner for entry in values)
    if not right:
        wanted = f"a list of {inner.__name__}" if many else inner.__name__
        raise ValueError(f"format check {name!r}: {parameter} is {value!r:.80}, wanted {wanted}")


def _require_relation(relation: Any) -> None:
    if relation not in _RELATIONS:
        raise ValueError(f"the relation is {relation!r:.40}, wanted one of {', '.join(_RELATIONS)}")


def _compare(count: int, relation: str, n: int) -> bool:
    return _RELATIONS[relation](count, n)


def _all_of(text: str, items: list[dict[str, Any]]) -> bool:
    checks = [read_check(item) for item in items]
    return all(check.holds(text) for check in checks)


def _any_of(text: str, items: list[dict[str, Any]]) -> bool:
    checks = [read_check(item) for item in items]
    return any(check.holds(text) for check in checks)


def _think_format(text: str, template_prefills_think: bool = False) -> bool:
    """<think>reasoning</think>answer, each tag once, neither part empty."""
    body = text.strip()
    if template_prefills_think and not body.startswith("<think>"):
        body = f"<think>{body}"
    opened, _, rest = body.partition("<think>")
    reasoning, closed, answer = rest.partition("</think>")
    once = body.count("<think>") == 1 and body.count("</think>") == 1
    return bool(once and not opened and closed and reasoning.strip() and answer.strip())


def _boxed_required(text: str) -> bool:
    return bool(last_box(text).strip())


def _answer_tag(text: str) -> bool:
    before, closed, _ = text.partition("</answer>")
    opened = before.count("<answer>") == 1 and text.count("</answer>") == 1
    return bool(closed and opened and before.partition("<answer>")[2].strip())


def _json(text: str) -> bool:
    fence = _WHOLE_FENCE.fullmatch(text)
    try:
        parse_json(fence[1] if fence else text)
    except ValueError:
        return False
    return True


def _letters(text: str) -> list[str]:
    return [character for character in text if character.isalpha()]


def _english_capital(text: str) -> bool:
    """Only A to Z: no lower-case letter and none of another alphabet."""
    return bool(_letters(text)) and all(c.isascii() and c.isupper() for c in _letters(text))


def _english_lowercase(text: str) -> bool:
    return bool(_letters(text)) and all(c.isascii() and c.islower() for c in _letters(text))


def _capital_word_count(text: str, n: int, relation: str = "at least") -> bool:
    return _compare(sum(word.isupper() for word in _WORD.findall(text)), relation, n)


def _word_count(text: str, n: int, relation: str = "at least") -> bool:
    """Words are separated by white space; a dash alone is none."""
    return _compare(len(_WORD.findall(text)), relation, n)


def _sentence_count(text: str, n: int, relation: str = "at least") -> bool:
    """A sentence ends in a mark and white space before a capital or digit, or with its line."""
    parts = [part for part in _SENTENCE_END.split(text) if re.search(r"\w", part)]
    return _compare(len(parts), relation, n)


def _character_count(text: str, n: int, relation: str = "at most") -> bool:
    return _compare(len(text), relation, n)


def _n_paragraphs(text: str, n: int, relation: str = "exactly") -> bool:
    return _compare(len(_paragraphs(text)), relation, n)


def _paragraphs(text: str) -> list[str]:
    """Separated by lines of asterisks where there are any, else by blank lines."""
    asterisks = r"^[ \t]*\*{3}[ \t]*$"
    divider = asterisks if re.search(asterisks, text, re.M) else r"\n\s*\n"
    return [part for part in re.split(divider, text, flags=re.M) if part.strip()]


def _nth_paragraph_first_word(text: str, nth: int, first_word: str) -> bool:
    parts = _paragraphs(text)
    words = parts[nth - 1].split() if 1 <= nth <= len(parts) else []
    return bool(words) and words[0].strip("*_\"'.,:;!?").casefold() == first_word.casefold()


def _n_bullets(text: str, n: int, relation: str = "exactly") -> bool:
    return _compare(len(_BULLET.findall(_RULE_LINE.sub("", text))), relation, n)


def _n_highlights(text: str, n: int, relation: str = "at least") -> bool:
    return _compare(len(_HIGHLIGHT.findall(text)), relation, n)


def _n_placeholders(text: str, n: int, relation: str = "at least") -> bool:
    return _compare(len(re.findall(r"\[[^\[\]\n]+\]", text)), relation, n)


def _n_sections(text: str, splitter: str, n: int, relation: str = "at least") -> bool:
    heading = rf"^[ \t#*]*{re.escape(splitter)}\s+(?:\d+|[IVXLC]+)\b"
    return _compare(len(re.findall(heading, text, re.MULTILINE)), relation, n)


def _title(text: str) -> bool:
    return bool(re.search(r"<<[ \t]*[^<>\s][^<>\n]*>>", text))


def _postscript(text: str, marker: str = "P.S.") -> bool:
    return bool(re.search(rf"^[ \t]*{re.escape(marker)}\s*\S", text, re.MULTILINE | re.IGNORECASE))


def _no_comma(text: str) -> bool:
    return bool(text) and not re.search("[,\uff0c\u060c\u3001]", text)


def _quotation(text: str) -> bool:
    return len(text) > 1 and text[0] + text[-1] in ('""', "\u201c\u201d")


def _end_phrase(text: str, phrase: str) -> bool:
    return bool(text) and text.strip('"* ').casefold().endswith(phrase.strip().casefold())


def _start_phrase(text: str, phrase: str) -> bool:
    return bool(text) and text.strip('"* ').casefold().startswith(phrase.strip().casefold())


def _two_responses(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    return len(parts) == 2 and all(parts) and parts[0] != parts[1]


def _one_of(text: str, choices: list[str]) -> bool:
    return text in [choice.strip() for choice in choices]


def _repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
    """The prompt word for word, white space and case aside, then an answer."""
    wanted, found = prompt_to_repeat.casefold().split(), text.casefold().split()
    return bool(found) and found[: len(wanted)] == wanted


def _occurrences(text: str, keyword: str) -> int:
    words = r"\s+".join(map(re.escape, keyword.split()))
    return len(re.findall(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE))


def _keywords_existence(text: str, keywords: list[str]) -> bool:
    """Every keyword occurs, as a word of its own, in any case."""
    return all(_occurrences(text, keyword) > 0 for keyword in keywords)


def _forbidden_words(text: str, keywords: list[str]) -> bool:
    return bool(text) and not any(_occurrences(text, keyword) for keyword in keywords)


def _keyword_count(text: str, keyword: str, n: int, relation: str = "at least") -> bool:
    return _compare(_occurrences(text, keyword), relation, n)


def _letter_count(text: str, letter: str, n: int, relation: str = "at least") -> bool:
    return _compare(text.casefold().count(letter.casefold()), relation, n)


def _matches(text: str, pattern: str) -> bool:
    return bool(text) and re.search(pattern, text) is not None


def _language(text: str, lang: str) -> bool:
    """The most probable language; a text without letters has none."""
    identifier = _identifier()
    return bool(_letters(text)) and identifier.classify(text)[0] == lang


@functools.cache
def _identifier() -> ModuleType:
    try:
        import py3langid
    except ModuleNotFoundError:
        raise ValueError(
            "the format check 'language' needs py3langid: pip install 'rlvr-platform[language]'"
        ) from None
    return py3langid


_WHOLE: Mapping[str, Callable[..., bool]] = {
    "all_of": _all_of,
    "any_of": _any_of,
    "think_format": _think_format,
}
"""Checks of the whole completion; the others see what follows the reasoning block."""

_ANSWER: Mapping[str, Callable[..., bool]] = {
    "answer_tag": _answer_tag,
    "boxed_required": _boxed_required,
    "capital_word_count": _capital_word_count,
    "character_count": _character_count,
    "end_phrase": _end_phrase,
    "english_capital": _english_capital,
    "english_lowercase": _english_lowercase,
    "forbidden_words": _forbidden_words,
    "json": _json,
    "keyword_count": _keyword_count,
    "keywords_existence": _keywords_existence,
    "language": _language,
    "letter_count": _letter_count,
    "matches": _matches,
    "n_bullets": _n_bullets,
    "n_highlights": _n_highlights,
    "n_paragraphs": _n_paragraphs,
    "n_placeholders": _n_placeholders,
    "n_sections": _n_sections,
    "no_comma": _no_comma,
    "nth_paragraph_first_word": _nth_paragraph_first_word,
    "one_of": _one_of,
    "postscript": _postscript,
    "quotation": _quotation,
    "repeat_prompt": _repeat_prompt,
    "sentence_count": _sentence_count,
    "start_phrase": _start_phrase,
    "title": _title,
    "two_responses": _two_responses,
    "word_count": _word_count,
}
