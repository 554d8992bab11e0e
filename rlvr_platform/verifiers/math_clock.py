"""Times of day (3 p.m., 3:00 PM, 15:00) and quantities of several units (5 feet 10 inches)."""

from __future__ import annotations

import re

from rlvr_platform.verifiers.math_quantity import canonical_unit

_TIME = re.compile(r"(\d{1,2})(?::(\d\d))?(?:([ap])\.?m\.?)?", re.IGNORECASE)
_HALF_DAY = 12 * 60
_PART = re.compile(r"(\d+(?:\.\d+)?) ?([a-zA-Z]+)\.?,? ?(?:and )?")


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
