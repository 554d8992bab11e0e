r"""A number with what people write around it: percent sign, degrees, unit, currency, scale word,
ordinal ending. Each is taken off and kept, none is dropped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rlvr_platform.verifiers.math_latex import DOLLAR

SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_UNIT_NAMES = {
    "m": "meter meters metre metres",
    "cm": "centimeter centimeters centimetre centimetres",
    "mm": "millimeter millimeters millimetre millimetres",
    "km": "kilometer kilometers kilometre kilometres kms",
    "in": "inch inches",
    "ft": "foot feet",
    "yd": "yard yards",
    "mi": "mile miles",
    "g": "gram grams gm",
    "kg": "kilogram kilograms kgs",
    "mg": "milligram milligrams",
    "lb": "pound pounds lbs",
    "oz": "ounce ounces",
    "ton": "tons tonne tonnes",
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
    "day": "days",
    "week": "weeks",
    "month": "months",
    "year": "years yr yrs",
    "l": "L liter liters litre litres",
    "ml": "mL milliliter milliliters",
    "gal": "gallon gallons",
    "dollar": "dollars USD usd bucks",
    "cent": "cents",
    "euro": "euros EUR",
    "mi/h": "mph",
    "km/h": "kph kmh",
    "unit": "units",
    "N": "newton newtons",
    "J": "joule joules",
    "W": "watt watts",
    "V": "volt volts",
    "A": "ampere amperes",
    "Hz": "hertz",
}
_UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in (unit, *names.split())}
_DIRECTIONS = (
    (
        "increase increased rise gain profit up higher",
        "decrease decreased reduction drop fall loss down lower",
    ),
    ("north northeast", "south southwest"),
    ("east southeast", "west northwest"),
    ("above", "below"),
    ("ahead", "behind"),
    ("before early", "after late"),
    ("clockwise", "counterclockwise anticlockwise"),
)
_OPPOSITES = tuple((frozenset(a.split()), frozenset(b.split())) for a, b in _DIRECTIONS)
_CURRENCIES = {DOLLAR: "dollar", "£": "pound sterling", "€": "euro", "¥": "yen", "₹": "rupee"}
_HEDGING = (
    "if otherwise not but except unless when either maybe perhaps possibly anything any between "
    "wrong incorrect factorial or else without neither nor no none never impossible undefined "
    "about least most"
)
_HEDGES = frozenset(_HEDGING.split())
_COMPARED = re.compile(
    r"\b(?:more|less|greater|fewer|larger|smaller|other|rather) than\b|\bat (?:least|most)\b"
    r"|\bup to\b|^(?:squared|cubed)\b|\bpercent of\b"
)
_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_COMMAND = re.compile(r"\\[a-zA-Z]+")
_ANGLE_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc|cis)(?![a-zA-Z])")
_ORDINAL = re.compile(
    r"(?<=\d)\s*\^?\s*\{?\s*(?:\\text\{\s*)?(?:st|nd|rd|th)\s*\}?\s*\}?(?![a-zA-Z])"
)
_DEGREES = re.compile(
    r"\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)\s*(?:[CF](?![a-zA-Z]))?"
    r"|(?<=\d)\s*(?:\\text\{\s*)?degrees?\b\s*\}?"
)
_PERCENT = re.compile(
    r"\s*(?:\\?%|\\text\{\s*(?:%|percent|per cent|pct)\s*\}|\b(?:percent|per cent|pct)\b)\s*"
)
_TAIL = re.compile(
    r"(?P<core>.*?[\d})\]!.]|.*?\\pi|[a-zA-Z](?= |\\text))\s*"
    r"(?P<tail>(?:(?:\\text\{[^{}]*\}|(?<![\\a-zA-Z])[a-zA-Z]{2,}\.?|(?<=[\s/])[a-zA-Z]|/|\\cdot"
    r"|(?<=\s)\([a-zA-Z][a-zA-Z ,.-]{2,}\))(?:\s*\^\s*\{?-?\d\}?)?\s*)+)"
)
_HEAD = re.compile(
    r"\\text\{([^{}]*)\}\s*[:=]?\s*(?=\S)|((?:[a-zA-Z]{2,}\s+)*[a-zA-Z]{2,}:?)\s+(?=[-+\d\\(])"
)
_MINUS = frozenset(("negative", "minus"))
_WORDLIKE = re.compile(r"(?=[a-zA-Z]*[aeiouyAEIOUY])[a-zA-Z]{3,}|[a-zA-Z]{4,}")
_SHORT = "a an as at be by do go he if in is it me my no of on or per so to up us we"
_SHORT_WORDS = frozenset(_SHORT.split())
_LETTER = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]")
_SHARE = re.compile(r"of (?:[b-zA-Z]\b|.*\d)")
"""Behind a percent sign, of what it is still to be taken."""
_FILLER = re.compile(
    r"(?:(?:so|there|thus|hence|therefore|the|final|answer|value|result|total|sum|is|are|equals|"
    r"area|"
    r"approximately|approx|about|roughly|exactly|only|a|an|of|it|we|get|have|be|to)\b\W*)+",
    re.I,
)


_MARKED = re.compile(
    rf"[%£€¥₹#{DOLLAR}]|" r"\\text|\\circ|(?<![\\a-zA-Z])[a-zA-Z]{2}|[\d}] +[a-zA-Z](?:$|/[a-zA-Z])"
)
"""What no scalar without marks contains."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What was written, taken apart."""

    core: str
    """The expression without its marks."""
    percent: bool = False
    degrees: bool = False
    unit: str = ""
    """Canonical name when it is a known unit, the words otherwise."""
    known_unit: bool = False
    scale: Fraction = Fraction(1)
    """1,000,000 for "million"."""
    hedged: bool = False
    """Words that take the number back or make it one of several."""
    head: str = ""
    """Words before the number that say more than that it is the answer."""


@lru_cache(maxsize=4096)
def read_quantity(text: str) -> Quantity:
    """Take the marks off a scalar in the dialect of math_text."""
    if not _MARKED.search(text):
        return Quantity(text)
    text = text.replace("'s ", " ").removesuffix("'s")
    text, currency = _without_currency(text)
    text = _ORDINAL.sub("", text)
    text, head = _without_head(text)
    text, percent = _without_percent(text)
    degrees = bool(_DEGREES.search(text)) and not _ANGLE_FUNCTION.search(text)
    text = _DEGREES.sub("", text).strip() if degrees else text
    core, tail = _split_tail(text)
    words = " ".join(_TEXT.sub(r"\1", tail).split())
    scale, words = _scaled(words)
    unit, known = canonical_unit(words)
    if not unit and (currency or degrees):
        unit, known = currency or "degree", True
    hedged = _is_hedged(f"{head} {words}".strip()) or (percent and bool(_SHARE.match(words)))
    return Quantity(core, percent, degrees, unit, known, scale, hedged, head)


def opposed(a: str, b: str) -> bool:
    """Whether words beside two numbers point in opposite directions: an increase, a decrease."""
    return any({_side(a, pair), _side(b, pair)} == {0, 1} for pair in _OPPOSITES)


def _side(text: str, pair: tuple[frozenset[str], frozenset[str]]) -> int | None:
    """Which of the two directions the words name first; None when neither."""
    one, other = pair
    return next((int(w in other) for w in text.lower().split() if w in one | other), None)


def _without_percent(text: str) -> tuple[str, bool]:
    """Without a percent sign behind the whole; one inside an expression is part of it."""
    match = _PERCENT.search(text)
    if match is None or re.search(r"[\d+*/^=-]", text[match.end() :]):
        return text, False
    return f"{text[: match.start()]} {text[match.end() :]}".strip(), True


def _without_currency(text: str) -> tuple[str, str]:
    for sign, name in _CURRENCIES.items():
        if sign in text:
            return text.replace(sign, " ").strip(), name
    return re.sub(r"\b(?:Rs|US)\b\.?", " ", text).strip(), ""


def _without_head(text: str) -> tuple[str, str]:
    """Without words before the number; those that say more than "the answer is"."""
    match = _HEAD.match(text)
    if not match:
        return text, ""
    words = (match[1] or match[2]).strip()
    if words.lower() in _MINUS:
        return f"-{text[match.end() :]}", ""
    if match[2] and not all(map(_is_word, words.rstrip(":").split())):
        return text, ""
    plain = bool(_FILLER.fullmatch(words + " ")) or not words
    return text[match.end() :], "" if plain else " ".join(re.findall(r"\w+", words.lower()))


def _split_tail(text: str) -> tuple[str, str]:
    match = _TAIL.fullmatch(text)
    if match is None or not _is_unit(match["core"], text[match.end("core") :]):
        return text, ""
    return match["core"].strip(), match["tail"].strip()


def _is_unit(core: str, tail: str) -> bool:
    """Whether what is written behind an expression is words, and no product of symbols."""
    bare = re.findall(r"[a-zA-Z]+", _COMMAND.sub(" ", _TEXT.sub(" ", tail)))
    if any(len(word) == 1 for word in bare) and _LETTER.search(_COMMAND.sub(" ", core)):
        return False
    attached = tail[:1].isalpha()
    return all(_is_named(word) if attached and word is bare[0] else _is_word(word) for word in bare)


def _is_word(word: str) -> bool:
    return _is_named(word) or word.lower() in _SHORT_WORDS or bool(_WORDLIKE.fullmatch(word))


def _is_named(word: str) -> bool:
    return word in _UNITS or word.lower().rstrip("s") in SCALES


def _scaled(words: str) -> tuple[Fraction, str]:
    scale, kept = Fraction(1), []
    for word in words.split():
        if word.lower().rstrip("s") in SCALES:
            scale *= SCALES[word.lower().rstrip("s")]
        else:
            kept.append(word)
    return scale, " ".join(kept)


@lru_cache(maxsize=1024)
def canonical_unit(words: str) -> tuple[str, bool]:
    """Canonical name of a unit, and whether it is one; square and per are understood."""
    plain = re.sub(r"[{}()\\.]|cdot", " ", words).strip()
    plain = re.sub(r"\b(?:sq|square)\s+(\w+)", r"\1^2", plain)
    plain = re.sub(r"\b(?:cu|cubic)\s+(\w+)", r"\1^3", plain)
    plain = re.sub(r"(\w+)\s+squared", r"\1^2", plain)
    plain = re.sub(r"(\w+)\s+cubed", r"\1^3", plain)
    plain = re.sub(r"\s*(?:/|\bper\b)\s*", "/", plain)
    plain = re.sub(r"\s*\^\s*", "^", plain)
    plain = re.sub(r"(?<=\w) ([a-zA-Z]+)\^-(\d)", r"/\1^\2", plain).replace("^1", "")
    parts = re.split(r"([/ ^])", plain)
    names = [_UNITS.get(part) for part in parts[::2] if part and not re.fullmatch(r"-?\d", part)]
    if not names or None in names:
        return plain, False
    parts[::2] = [_UNITS.get(part, part) for part in parts[::2]]
    unit = "".join(parts)
    return unit, not unit.startswith("unit")


def _is_hedged(words: str) -> bool:
    lowered = words.lower()
    found = set(re.findall(r"[a-z]+", lowered)) & _HEDGES
    counted = re.search(r"\d", re.sub(r"\^\s*\{?-?\d\}?", "", lowered))
    return bool(found) or bool(_COMPARED.search(lowered)) or bool(counted)
