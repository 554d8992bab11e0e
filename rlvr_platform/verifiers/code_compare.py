"""Whether a program's output is the expected one."""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?", re.ASCII)
_WHOLE = re.compile(r"-?[1-9][0-9]*|0", re.ASCII)
_LONGEST_NUMBER = 400


def same_output(output: str, expected: str, tolerance: float) -> bool:
    """Line by line, token by token; white space around lines and at both ends does not count.

    A token may differ from the expected one when both are numbers: by `tolerance`, absolute or
    relative, when the expected one has a decimal point or an exponent; in notation only (3.0 for
    3) when it is a whole number without leading zeros.
    """
    lines, wanted = output.strip().split("\n"), expected.strip().split("\n")
    return len(lines) == len(wanted) and all(
        _same_line(line, other, tolerance) for line, other in zip(lines, wanted, strict=True)
    )


def _same_line(line: str, expected: str, tolerance: float) -> bool:
    tokens, wanted = line.split(), expected.split()
    return tokens == wanted or (
        len(tokens) == len(wanted)
        and all(_same_token(*pair, tolerance) for pair in zip(tokens, wanted, strict=True))
    )


def _same_token(token: str, expected: str, tolerance: float) -> bool:
    if token == expected:
        return True
    if max(len(token), len(expected)) > _LONGEST_NUMBER:
        return False
    if not (_NUMBER.fullmatch(token) and _NUMBER.fullmatch(expected)):
        return False
    if _WHOLE.fullmatch(expected):
        return Decimal(token) == Decimal(expected) and not _WHOLE.fullmatch(token)
    if not re.search(r"[.eE]", expected):
        return False
    distance = abs(Decimal(token) - Decimal(expected))
    return distance <= Decimal(tolerance) * max(Decimal(1), abs(Decimal(expected)))
