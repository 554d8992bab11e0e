r"""One spelling for each thing: unicode, LaTeX and plain-text mathematics become one dialect.

The dialect: \frac, \sqrt, \cdot, \pi and the like; \le \ge \ne < > =; \{ \} for sets; \text{...}
for words; \or and \and between alternatives; no spacing, sizing or dollar commands.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rlvr_platform.verifiers.math_latex import AND_OR, DOLLAR, WORDS, from_latex
from rlvr_platform.verifiers.math_unicode import from_unicode

_FREE_INTEGER = re.compile(
    r"(?<=\S)\s*(?:[,;(]|\\text\{\s*(?:where|for)\s*\})\s*\(?\s*[knm](?:\s*,\s*[knm])*\s*"
    r"\\in\s*\\mathbb\{[ZN]\}\s*(?:\^\s*\{?[+*]\}?)?\s*\)?$"
)
_COMBINATIONS = re.compile(
    r"(?:\{\}\s*_\s*\{?(\d+)\}?\s*C\s*_\s*\{?(\d+)\}?)|C_\{?(\d+)\}?\^\{?(\d+)\}?"
    r"|(?:(?<=[-+*/(])|(?<=[-+*/] ))C\((\d+), ?(\d+)\)|C\((\d+), ?(\d+)\)(?= ?[-+*/^])"
)
_WORD = re.compile(
    r"(?<![\\a-zA-Z{])(?:"
    + "|".join(sorted(WORDS.keys() - {"and", "or"}, key=len, reverse=True))
    + r")(?![a-zA-Z])"
)
_CAPITALS = re.compile(r"(?!AND |OR |NOT )[A-Z]{2,}(?:,? [A-Z]{2,})+")
_CAPITAL_JOINT = re.compile(r"(?<=[\d)}]) (AND|OR) (?=[-\w\\(\[])")
_JOINED = re.compile(rf",?\s*{AND_OR}")
_ONE_DOLLAR = re.compile(r"^([^$]*)\$(?=\s*[\d.][^$]*$)")
_GLUED = re.compile(
    r"(?<![\\a-zA-Z])(sqrt|pi|sin|cos|tan|ln|log|exp)(?=[\d(\\])|(?<=\d)(sqrt|pi)\b"
)
_LOST_BACKSLASH = re.compile(r"(?<![\\a-zA-Z])(?:[dt]?(?=frac\{)|(?=sqrt\{))")
_ASCII = (
    ("**", "^"),
    ("<=", "\\le "),
    (">=", "\\ge "),
    ("!=", "\\ne "),
    ("+/-", "\\pm "),
    ("{,}", ","),
)
_CALLED_ROOT = re.compile(r"\\sqrt(\[\d\])?\s*\(")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,]*\d)")
_SPACED_THOUSANDS = re.compile(r"(?<![\d.])[1-9]\d{0,2}(?: \d{3})+(?!\d| ?/)")
_THIN_THOUSANDS = re.compile(r"(?<=\d)(?:,?\\!|\\[,:;]|\{,\}|\\ |\s?\{\s?,\s?\}\s?)(?=\d{3}(?!\d))")
_MIXED = re.compile(r"(?<![\d./^}])(\d+) +(\d+)/(\d+)(?![\d/])")
_DECIMAL_COMMA = re.compile(r"^(-?0),(\d+)$")
_TIMES_TEN = re.compile(r"(?<=\d) ?x ?(?=10 ?\^)")
_IN_BASE = re.compile(
    r"(?<![\w.])([0-9A-F]+) ?(?:\\text\{ ?)?\(?(?:in )?base[- ]?(?:\\text\{ ?)?\}? ?"
    r"(\d+|[a-z]{3,7})\)?\}?"
)
_ROOT = re.compile(
    r"(?:\\text\{ ?)?(?:the )?(?:positive |principal )?(square|cube) root of ?\}? ?"
    r"(\d+(?:\.\d+)?|[a-z])\b\}?"
)
_LEFT_OUT = re.compile(r"(\\mathbb\{[A-Z]\}|[)\]]|\\\})\s*-\s*(?=\\\{)")
_RATIO = re.compile(r"(\d+) ?(?:\\text\{ ?to ?\}|to) ?(\d+)")
_QUOTES = '"\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}'
_TRAILING = f".,;:*`? \t\n\r\N{HORIZONTAL ELLIPSIS}{_QUOTES}"
_PLAIN = re.compile(r"[-+]?\d+(?:\.\d+)?")


def trim(text: str) -> str:
    """Without white space, spacing commands, bold marks, and the full stop of a sentence."""
    text = text.lstrip(f"*` \t\r\n:{_QUOTES}")
    while True:
        shorter = text.rstrip(_TRAILING).removesuffix("\\!").rstrip("\\")
        if shorter == text:
            return text
        text = shorter


@lru_cache(maxsize=4096)
def normalise(text: str) -> str:
    """`text` in the dialect of this module."""
    text = trim(text)
    if _PLAIN.fullmatch(text):
        return text
    text = _THIN_THOUSANDS.sub("", text) if "\\" in text or "{" in text else text
    text = from_unicode(text)
    if "\\" in text:
        text = from_latex(text)
    text = " ".join(text.split())
    text = text.lower() if _CAPITALS.fullmatch(text) else text
    text = _LOST_BACKSLASH.sub(r"\\", text) if "{" in text else text
    for old, new in _ASCII:
        text = text.replace(old, new)
    text = _COMBINATIONS.sub(_combinations, text) if "C" in text else text
    text = _DECIMAL_COMMA.sub(r"\1.\2", _words(text))
    text = _TIMES_TEN.sub(r"\\cdot ", text)
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    text = _ROOT.sub(_root, text) if "root" in text else text
    text = _IN_BASE.sub(r"\1_{\2}", text) if "base" in text else text
    text = _unwrapped(trim(re.sub(r"\s+", " ", text)).removeprefix("\\approx").strip())
    text = _LEFT_OUT.sub(r"\1\\setminus ", _RATIO.sub(_ratio, text) if "to" in text else text)
    return _FREE_INTEGER.sub("", text) if "\\in" in text else text


def without_separators(text: str) -> str:
    """With the commas or blanks inside numbers such as 1,234,567 removed.

    Inside brackets a comma separates.
    """
    if re.search(r"[(\[]|\\\{", text):
        return text
    text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    return _SPACED_THOUSANDS.sub(lambda match: match[0].replace(" ", ""), text)


def _root(match: re.Match[str]) -> str:
    degree = "[3]" if match[1] == "cube" else ""
    return f"\\sqrt{degree}{{{match[2]}}}"


def _ratio(match: re.Match[str]) -> str:
    return f"{match[1]}:{match[2]}" if match[0] == match.string else match[0]


def _combinations(match: re.Match[str]) -> str:
    high, low = filter(None, match.groups())
    return f"\\binom{{{high}}}{{{low}}}"


def _words(text: str) -> str:
    text = " ".join(_ONE_DOLLAR.sub(rf"\1{DOLLAR}", text).replace("$", " ").split())
    text = _CAPITAL_JOINT.sub(lambda match: match[0].lower(), text)
    text = _JOINED.sub(r" \\\1 ", text)
    if not re.search(r"[a-zA-Z]{2}", text):
        return text
    text = _GLUED.sub(lambda match: WORDS[match[1] or match[2]], text)
    text = _outside_text(text)
    return _CALLED_ROOT.sub(lambda match: f"\\sqrt{match[1] or ''}(", text)


def _outside_text(text: str) -> str:
    parts = re.split(r"(\\text\{[^{}]*\})", text)
    parts[::2] = [_WORD.sub(lambda match: WORDS[match[0]], part) for part in parts[::2]]
    return "".join(parts)


def _unwrapped(text: str) -> str:
    """Without braces, and without more than one pair of parentheses, around the whole."""
    layers = _layers(text, "{}")
    text = text[layers : len(text) - layers].strip()
    layers = max(_layers(text, "()") - 1, 0)
    return text[layers : len(text) - layers]


def _layers(text: str, brackets: str) -> int:
    """How many pairs of these brackets enclose the whole text."""
    if text[:1] != brackets[0]:
        return 0
    opened: list[int] = []
    partner: dict[int, int] = {}
    for at, character in enumerate(text):
        if character == brackets[0]:
            opened.append(at)
        elif character == brackets[1] and opened:
            partner[opened.pop()] = at
    layers = 0
    while partner.get(layers) == len(text) - 1 - layers:
        layers += 1
    return layers
