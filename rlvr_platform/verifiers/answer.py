"""Where in a completion its final answer stands. Every scan is linear in the completion."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlvr_platform.verifiers.answer_marks import (
    ANY_BOX,
    TAG,
    bare_box,
    boxes,
    last_joined,
    tagged,
)
from rlvr_platform.verifiers.math_clock import MONTH
from rlvr_platform.verifiers.math_quantity import canonical_unit
from rlvr_platform.verifiers.math_text import trim
from rlvr_platform.verifiers.math_words import spelled_in

_TAIL = 4096
"""Characters at the end in which an answer without a box or a tag is looked for."""
_END = 200
"""Characters at the end in which the tokenizer's end marks are looked for; before a statement, in
which its sentence is."""
_BREAK = 20
"""Characters at the end that show whether it breaks off."""
_BRIEF = 3
"""Words up to which a whole completion is the answer, although it is no statement."""
_STATEMENT = re.compile(
    r"answer\W{0,3}\s*(?:\*\*)?\s*(?:is\s*:?|:|=)\s*(?:\*\*)?|^\s*A:(?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
_END_TOKENS = re.compile(r"(?:<\|[^|<>]{1,40}\|>|</s>|<eos>|<end_of_turn>|\s)+$")
_TURN_END = re.compile(
    r"<(?:\|(?:im_end|eot_id|endoftext|end_of_text)\|>|eos>|end_of_turn>"
    r"|/s>(?=\s*(?:<s>|\[INST\]|<\|)))"
)
_QED = re.compile(r"\s*\$?\s*(?:\\(?:blacksquare|square|qed|Box)|[■□∎])\s*\$?\s*$")
_LEAD = re.compile(
    r"\s*(?:=>|->|⇒|→|∴)\s*"
    r"|(?:(?:so|thus|hence|therefore|then|finally|we (?:have|get|obtain)|and)\b[\s,:]*)+",
    re.IGNORECASE,
)
_QUALIFIER = re.compile(
    r"\b(?:not|isn't|never|than|least|most|between|except|excluding|cannot be)\s+"
    r"(?:(?:equal\s+to|exactly)\s+)?$",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"(?<![\\{a-zA-Z\d])"
    r"(?!(?:sqrt|pi|sin|cos|tan|ln|log|exp|and|or|infinity|(?:in )?base)(?![a-z]))[a-zA-Z]{2,}"
)
_WORD_OR_ARTICLE = re.compile(_WORD.pattern + r"|(?<![\w\\^=+*/-])\s(?:a|A|I)\s(?![=<>+*/-])")
_COMPOSED = re.compile(r"[=<>≤≥≠√:^²³+*/]|\d[a-z]|\d\s*[apAP]\.?[mM]\b|\\[a-zA-Z]| - ")
_UNIT_WORDS = re.compile(
    r"(?:(?<=\d)\s*[ap]\.m|(?<=[\d%)}π°])\s*[a-zA-Z]{2,}(?:\s+[a-zA-Z]{2,}){0,3}[²³]?"
    r"|(?<!\W))\W*$"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_NO_THING = (
    "then|plus|minus|times|or|and|is|are|was|were|does|equals|in|of|to|from|by|at|for|more|less"
)
_COUNT = rf"\$?\d[\d.,]*\s+(?!(?:{_NO_THING})\b(?!\W*$))[a-zA-Z]{{2,}}"
_NAMED = r"[a-zA-Z]+\s*[=:]\s*[^\s,;]+"
_SEVERAL = re.compile(
    rf"(?:^|\s)({_COUNT}(?:(?:\s*,\s*(?:and\s)?|\s+and\s|\s)\s*{_COUNT})+"
    rf"|{_NAMED}(?:[,;]\s*(?:and\s)?{_NAMED})+"
    rf"|{MONTH}\.? {_DAY}(?:,? \d{{4}})?|(?:the )?{_DAY}(?: of)? {MONTH}(?:,? \d{{4}})?)\W*$"
)
"""At the end of a sentence, 5 feet 10 inches, 3 boys and 4 girls; red = 8, blue = 5; a date."""
_APPENDED = re.compile(r"(?<=[\w)}]),(?:\s+[a-zA-Z]{2,})+\W*$")
_REMARK = re.compile(
    r"\s*\((?:since|because|as|which|where|when|by|using|compare|see|i\.e\.|that is)\b[^()]*\)\W*$"
)
_PLACE = re.compile(
    r"\s*(?:\\text\s*\{\s*)?[,(](?:\s*\\text\s*\{)?\s*"
    r"(?:(?:which is |with equality )?(?:attained|achieved|reached|obtained|occurring)\b|where\b"
    r"[\s}$]*[a-zA-Z][\s$]*(?:\\text\s*\{\s*)?(?:is|are|denotes?) (?:the|a|an|any|some)\b).*",
    re.DOTALL,
)
"""Where an extreme is attained, what a letter stands for."""
_GIVEN = re.compile(
    r"\b(?:and |but )?(?:since|because|given(?: that)?)\s[^,()]*(?:\([^()]*\)[^,()]*)*,\s*(?=\S)"
)
_REASON = re.compile(r",\s+(?:which|because|since|as)\s.*", re.DOTALL)
_RETRACTED = re.compile(
    r"\b(?:fail(?:s|ed)?|(?:does not|doesn't|did not|didn't|will not|cannot) work|impossible|wrong"
    r"|incorrect|too (?:big|small|large|low|high|many|few|much))\b|contradict",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|suppose|supposing|assume|assuming|whether)\b[^.!?\n]*\Z", re.I)
_STEP = re.compile(
    r"\W*(?:(?:(?:now|next|first|so|let's)\b"
    r"|to (?:set|write|form|build|make|get|begin|start|model)\b[^,.]*,)[\s,]*)?"
    r"(?:let(?!'s)|suppose|assume|consider|try)\b"
    r"(?!.*(?:\b(?:then|so|thus|hence|gives?|get)\b|,.*\bis\b))",
    re.IGNORECASE | re.DOTALL,
)
_TO_DO = re.compile(
    r"\b(?:need|have|want|remains|left|going) to "
    r"(?:compute|find|calculate|evaluate|determine|solve|consider|check)\b"
)
_BOLD = re.compile(r"(?<![\w*])\*\*([^*\n]+)\*\*((?<=\d\*\*)[ a-zA-Z]{1,30}|)[a-zA-Z ]{0,30}\W*$")
_DENIED = re.compile(r",?\s+(?:and |but )?not\b.*", re.DOTALL)
_INSTEAD = re.compile(r",\s+(?:and |but )?not\b.*", re.DOTALL)
_REASONING_END = re.compile(r"</think(?:ing)?>")
_NEXT_TASK = re.compile(r"\n[ \t]*(?:Question|Problem|Q|Human|User)[ \t]*:")
_MARKED = re.compile(r"####|answer(?:\*\*)? ?(?:is|:|=)", re.IGNORECASE)
_NUMBERED_TASK = re.compile(r"\n[ \t]*(?:#{1,6}|\*\*)[ \t]*(?:Question|Problem|Exercise)[ \t]+\d")
_REASONING_START = re.compile(r"<think(?:ing)?>")
_SPAN = re.compile(
    r"\$\$(?P<d>[^$]+)\$\$|(?<!\\)\$(?P<i>[^\s$](?:[^$\n]*[^\s$\\])?)\$(?!\d)"
    r"|(?P<e>\\begin\{(?:align|equation|gather)\*?\}.{1,2000}?\\end\{[a-z]+\*?\})"
    r"|\\\((?P<p>.{1,2000}?)\\\)|\\\[(?P<b>.{1,2000}?)\\\]",
    re.DOTALL,
)
_CONNECTION = re.compile(r"\s*(?:,|,?\s*and|,?\s*or)\s*")
_PROSE = re.compile(r"(?<![\\{a-zA-Z])[a-zA-Z]{2,}[ ,.:]+[a-zA-Z]{2,}")
_VERB = re.compile(
    r"\b(?:is|are|equals?|be|was|were|gives|get|obtain)\b(?:\s+(?:equal\s+)?to\b)?"
    r"(?:\s+(?:now|then|therefore|thus|simply|just|indeed)\b)?\s*:?\s*|(?<=[a-zA-Z*)]):\s+|⇒|→"
)
_AFTER_VERB = re.compile(r"\b(?:is|are|equals|be)\s*:?\s*$")
_UNFINISHED = re.compile(
    r"(?:[=+/<^_(\[{-]|\\cdot|\\times|\b(?:is|are|and|or|the|of|by|equals|than|gives|that|so))\s*\$?\s*$"
)
_SENTENCE_END = re.compile(r"[.!?](?:\*\*)?\s+(?=[A-Z\"*])|\n")
_COURTESY = re.compile(
    r"i hope|hope (?:this|that|it)|let me know|feel free|this is the final|good luck"
    r"|(?:this |which )?(?:completes|concludes|finishes) (?:the|our)\b|we(?: are|'re) done"
    r"|q\.?e\.?d\b|as (?:required|desired|claimed)",
    re.I,
)
_MINUS = "[-\N{MINUS SIGN}]"
_VULGAR = "[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]"
_MATHEMATICAL = re.compile(rf"\d|\\[a-zA-Z]|[π√∞²³]|{_VULGAR}")
_CLOSING = re.compile(r"\\[\])]")
_OPENING = str.maketrans("])", "[(")
_NUMBER = re.compile(
    rf"{_MINUS}?[$£€¥₹]?-?(?:\d{{1,3}}(?:,\d{{3}})+(?!\d)|\d+)(?:\.\d+)?"
    rf"(?:\s?/\s?\d+|\s?{_VULGAR})?\s?%?|{_MINUS}?[$£€¥₹]?\.\d+|{_MINUS}?{_VULGAR}"
)
_CALCULATES_ON = re.compile(
    r"\s*(?:(?:times|plus|minus|divided by|multiplied by|mod(?:ulo)?)\s+(?:-?\d|[b-zB-Z]\b)"
    r"|(?:squared|cubed|factorial|(?:less|more|fewer|greater) than)\b)"
)
_CALCULATES = re.compile(
    r"\b(?:(?:root|half|third|quarter|double|twice|square|cube|log(?:arithm)?|negative|minus|sine|"
    r"cosine|tangent|multiples?|divisors?|factors?)(?: of)?)\s*$",
    re.IGNORECASE,
)
"""What makes something else of the number behind it."""
_NEXT_WORD = re.compile(r"\s*((?!in\b)[a-zA-Z]{2,}(?:/[a-zA-Z]+)?)(?![a-zA-Z/^²³])")
_UNIT = re.compile(r"\s*([a-zA-Z]{2,}(?:\s+[a-zA-Z]{2,}){0,3})\s*$")


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer of a completion."""

    text: str
    """The answer as it stands there, white space and trailing punctuation removed."""
    rule: str
    """Which form it has: box, answer tag, ####, answer statement, last expression."""
    expression: str
    """`text` without the sentence around it; `text` where it is no sentence."""


def final_answer(completion: str) -> Answer | None:
    """The final answer, in this order of preference: the last box that is not empty; an answer
    tag; the text after ####; a statement "the answer is ..."; the last sentence.

    Only what follows the reasoning block counts. None when nothing follows it, when the completion
    opens a box or a tag and never puts an answer into one, or when its last sentence states
    nothing.
    """
    text = _after_reasoning(completion)
    if ANY_BOX.search(text):
        return _bounded(last_joined(text, boxes(text)) or bare_box(text), "box")
    if TAG.search(text):
        return _bounded(last_joined(text, tagged(text)), "answer tag")
    if "####" in text:
        return _bounded(text[text.rindex("####") + 4 :].strip().split("\n")[0], "####")
    return _stated(text[-_TAIL:].strip())


def _after_reasoning(completion: str) -> str:
    """What follows the reasoning, up to a next task that the policy made up."""
    reasoning = _REASONING_END.search(completion)
    begin = reasoning.end() if reasoning else 0
    turn = _TURN_END.search(completion, begin)
    if turn and completion[begin : turn.start()].strip():
        completion = completion[: turn.start()]
    ends = list(_REASONING_END.finditer(completion))
    text = completion[ends[-1].end() :] if ends else completion
    text = _NEXT_TASK.split(_REASONING_START.split(text, maxsplit=1)[0].lstrip(), maxsplit=1)[0]
    text = _up_to_next_number(text).rstrip()
    return text[:-_END] + _QED.sub("", _END_TOKENS.sub("", text[-_END:]))


def _up_to_next_number(text: str) -> str:
    """A numbered task is another one when an answer is marked before it."""
    if not _NUMBERED_TASK.search(text):
        return text
    marks = [mark.search(text) for mark in (ANY_BOX, TAG, _MARKED)]
    marked = min((mark.end() for mark in marks if mark), default=len(text))
    heading = _NUMBERED_TASK.search(text, marked)
    return text[: heading.start()] if heading else text


def _bounded(content: str, rule: str) -> Answer | None:
    text = trim(content)
    if not text:
        return None
    if len(text) > _TAIL:
        return Answer(text, rule, text)
    if rule == "box":
        return Answer(text, rule, trim(_PLACE.sub("", text)) or text)
    return Answer(text, rule, _expression(text.rstrip("!")) or _REMARK.sub("", text))


def _stated(text: str) -> Answer | None:
    if _UNFINISHED.search(text[-_BREAK:]):
        return None
    found = reversed(list(_STATEMENT.finditer(text)))
    statement = next((s for s in found if not _is_supposed(text, s)), None)
    if statement is None:
        return _concluded(text)
    after = text[statement.end() :].strip()
    span = _SPAN.match(after)
    end = _SENTENCE_END.search(after, span.end() if span else 0)
    return _bounded(_inside(after[: end.start()] if end else after), "answer statement")


def _is_supposed(text: str, statement: re.Match[str]) -> bool:
    start = statement.end() - len(statement[0].lstrip())
    before = text[max(0, start - _END) : start]
    return bool(_SUPPOSED.search(before))


def _inside(line: str) -> str:
    """Up to the delimiter that closes before it opens: the statement stood inside mathematics."""
    closing = _CLOSING.search(line)
    opens = closing is not None and closing[0].translate(_OPENING) in line[: closing.start()]
    return line[: closing.start()] if closing and not opens else line


def _concluded(text: str) -> Answer | None:
    """What the last sentence says, courtesies aside."""
    if (spans := _final_spans(text)) is not None:
        return Answer(spans, "last expression", spans)
    sentence = _last_sentence(text)
    brief = len(text.split()) <= _BRIEF and not text.endswith("?")
    expression = _expression(sentence) or (trim(text) if brief else "")
    if not expression:
        return None
    return Answer(trim(sentence), "last expression", expression)


def _last_sentence(text: str) -> str:
    pieces = [piece.strip() for piece in _SENTENCE_END.split(text) if trim(piece)]
    while len(pieces) > 1 and (_COURTESY.search(pieces[-1]) or pieces[-1].endswith("?")):
        pieces.pop()
    return pieces[-1] if pieces and not pieces[-1].endswith("?") else ""


def _final_spans(text: str) -> str | None:
    """The delimited mathematics that ends the text, when it spreads over lines."""
    spans = list(_SPAN.finditer(text))
    if not spans or "\n" not in spans[-1][0] or trim(text[spans[-1].end() :]):
        return None
    return spans[-1][spans[-1].lastgroup or 0].strip()


def _expression(sentence: str) -> str:
    """The mathematics that a sentence states; empty when it states none, or takes it back."""
    sentence = _concluding(_PLACE.sub("", _REMARK.sub("", sentence)))
    stated = _INSTEAD.sub("", sentence)
    sentence = stated if _MATHEMATICAL.search(stated) else sentence
    if _STEP.match(sentence) or _is_to_do(sentence):
        return ""
    lead = _LEAD.match(sentence)
    start, found = _located(sentence[lead.end() :] if lead else sentence)
    before = sentence[: start + (lead.end() if lead else 0)]
    taken_back = _QUALIFIER.search(before) or _RETRACTED.search(sentence, len(before))
    return "" if taken_back else found


def _is_to_do(sentence: str) -> bool:
    to_do = _TO_DO.search(sentence)
    return bool(to_do) and not _VERB.search(sentence, to_do.end())  # type: ignore[union-attr]


def _concluding(sentence: str) -> str:
    """What follows "since x > 0,", or stands before it where nothing follows."""
    given = list(_GIVEN.finditer(sentence))
    if not given:
        return sentence
    after = sentence[given[-1].end() :]
    return after if _MATHEMATICAL.search(after) else sentence[: given[-1].start()]


def _located(sentence: str) -> tuple[int, str]:
    """Where the mathematics begins, and what it is: delimited, or all but a unit, or what follows
    the last verb, or the last number."""
    spans = list(_SPAN.finditer(sentence))
    if spans and not _states_number(sentence[spans[-1].end() :]):
        return _delimited(sentence, _up_to_stated(sentence, spans))
    if _is_expression(sentence):
        return 0, trim(sentence)
    if several := _SEVERAL.search(sentence):
        return several.start(1), trim(several[1])
    bold = _BOLD.search(sentence)
    if bold and (_is_expression(bold[1]) or not _MATHEMATICAL.search(sentence)):
        return bold.start(), trim(bold[1] + bold[2])
    sentence = _REASON.sub("", sentence)
    verbs = list(_VERB.finditer(sentence))
    if verbs:
        start = verbs[-1].end()
        after = trim(_DENIED.sub("", _APPENDED.sub("", sentence[start:])))
        first = _MATHEMATICAL.search(after)
        if after and not first and not _MATHEMATICAL.search(sentence):
            return _last_spelled(sentence[:start]) or (start, after)
        if first and not _PROSE.search(after[: first.start()]):
            return start, after
    return _at_the_end(sentence) or _last_number(sentence) or _last_spelled(sentence) or (0, "")


def _is_expression(text: str) -> bool:
    """Whether `text` is mathematics, with no more words than those of a unit."""
    return bool(_MATHEMATICAL.search(text)) and not _WORD.search(_UNIT_WORDS.sub("", text))


def _at_the_end(sentence: str) -> tuple[int, str] | None:
    """The relation, sum or product that a sentence without a verb ends with."""
    words = list(_WORD_OR_ARTICLE.finditer(_UNIT_WORDS.sub("", sentence)))
    start = words[-1].end() if words else 0
    found = trim(sentence[start:].lstrip(" ,:=*").removeprefix("i.e."))
    if not _COMPOSED.search(found) or not _MATHEMATICAL.search(found):
        return None
    return start, found


def _states_number(text: str) -> bool:
    verb = _VERB.search(text)
    return bool(verb) and bool(_NUMBER.match(text, verb.end()))  # type: ignore[union-attr]


def _up_to_stated(sentence: str, spans: list[re.Match[str]]) -> list[re.Match[str]]:
    """Without the spans behind the last one that follows a verb, unless joined to it."""
    for at in range(len(spans) - 1, -1, -1):
        if _AFTER_VERB.search(sentence[: spans[at].start()]):
            while at + 1 < len(spans) and _CONNECTION.fullmatch(
                sentence[spans[at].end() : spans[at + 1].start()]
            ):
                at += 1
            return spans[: at + 1]
    return spans


def _delimited(sentence: str, spans: list[re.Match[str]]) -> tuple[int, str]:
    """The last delimited mathematics with what is joined to it by commas, "and" or "or", and the
    unit behind it."""
    first = _first_joined(sentence, spans)
    joined = ", ".join(trim(span[span.lastgroup or 0]) for span in spans[first:])
    unit = _UNIT.match(sentence[spans[-1].end() :].split(".")[0])
    return spans[first].start(), f"{joined}\\text{{ {unit[1]}}}" if unit else joined


def _last_number(sentence: str) -> tuple[int, str] | None:
    """The last number, with those that are joined to it and its unit."""
    numbers = list(_NUMBER.finditer(sentence))
    if not numbers:
        return None
    if _CALCULATES_ON.match(sentence, numbers[-1].end()):
        return 0, ""
    joined = numbers[_first_joined(sentence, numbers) :]
    if _CALCULATES.search(sentence[: joined[0].start()][-_END:]):
        return 0, ""
    unit = _NEXT_WORD.match(sentence, numbers[-1].end())
    known = unit[0] if unit and canonical_unit(unit[1])[1] else ""
    return joined[0].start(), ", ".join(match[0].strip() for match in joined) + known


def _last_spelled(sentence: str) -> tuple[int, str] | None:
    numbers = spelled_in(sentence)
    return numbers[-1] if numbers else None


def _first_joined(sentence: str, parts: list[re.Match[str]]) -> int:
    """The first of the parts at the end that only commas, "and" or "or" separate."""
    first = len(parts) - 1
    while first and _CONNECTION.fullmatch(sentence[parts[first - 1].end() : parts[first].start()]):
        first -= 1
    return first
