"""Times of day (3 p.m., 3:00 PM, 15:00) and quantities of several units (5 feet 10 inches)."""

from __future__ import annotations

import re

from rlvr_platform.verifiers.math_quantity import canonical_unit

_TIME = re.compile(r"(\d{1,2})(?::(\d\d))?(?:([ap])\.?m\.?)?", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
"""A pattern of the months' names."""
_MONTH = re.compile(MONTH, re.IGNORECASE)
_DATE_WORD = re.compile(r"(?!(?:of|the|on|st|nd|rd|th)\b)(?:(?<![a-z])[a-z]+|\d{1,4}(?!\d))")
_HALF_DAY = 12 * 60
_PART = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?) ?([a-zA-Z]+)\.?,? ?(?:and )?")


def same_date(gold: str, answer: str) -> bool | None:
    """Whether both are one day, in either order; the gold answer may leave out the year.

    None when the gold answer is no date.
    """
    wanted, given = _date(gold), _date(answer)
    if wanted is None:
        return None
    return given is not None and given[: len(wanted)] == wanted


def same_time(gold: str, answer: str) -> bool | None:
    """Whether both are one time of day; a.m. and p.m. may be left out on one side.

    None when neither says a.m. or p.m., or the gold answer is no time.
    """
    g, a = _time(gold), _time(answer)
    if g is None or not (g[3] or (a and a[3])):
        return None
    if a is None:
        return False
    wanted, given = _minutes(g), _minutes(a)
    if _is_ambiguous(g) or _is_ambiguous(a):
        return wanted % _HALF_DAY == given % _HALF_DAY
    return wanted == given


def same_parts(gold: str, answer: str) -> bool | None:
    """Whether both give the same number of each unit; nothing is converted.

    None when the gold answer is no quantity of several known units.
    """
    wanted = _parts(gold)
    return None if len(wanted) < 2 else wanted == _parts(answer)


def _parts(text: str) -> list[tuple[float, str]]:
    plain = " ".join(re.sub(r"\\text|[{}~]", " ", text).replace("\\and", " and ").split())
    parts = list(_PART.finditer(plain))
    if "".join(part[0] for part in parts) != plain:
        return []
    units = [canonical_unit(part[2]) for part in parts]
    known = all(is_known for _, is_known in units)
    return [(float(p[1]), u) for p, (u, _) in zip(parts, units, strict=True)] if known else []


def _date(text: str) -> tuple[int, ...] | None:
    """Month, day, and the year where there is one."""
    words = _DATE_WORD.findall(re.sub(r"\\text|\^", " ", text).lower())
    months = [word[:3] for word in words if _MONTH.fullmatch(word)]
    numbers = [int(word) for word in words if word.isdigit()]
    if len(months) != 1 or len(words) - 1 != len(numbers) or len(numbers) not in (1, 2):
        return None
    return _MONTHS.index(months[0]), *numbers


def _time(text: str) -> re.Match[str] | None:
    return _TIME.fullmatch(re.sub(r"\\text|[{}\s]", "", text))


def _is_ambiguous(time: re.Match[str]) -> bool:
    return not time[3] and int(time[1]) <= 12


def _minutes(time: re.Match[str]) -> int:
    """Minutes since midnight."""
    hour = int(time[1])
    if time[3]:
        hour = hour % 12 + (12 if time[3].lower() == "p" else 0)
    return hour * 60 + int(time[2] or 0)
