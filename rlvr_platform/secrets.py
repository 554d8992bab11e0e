"""Tokens, passwords and API keys: refused in configurations, masked in text that is kept."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

MASK = "***"
SHORTEST_VALUE = 16
"""Characters; a shorter value of an environment variable may be an ordinary word."""

_SECRET_VARIABLE = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|KEY)$", re.IGNORECASE)
_SECRET_KEY = re.compile(
    r"(api|access|private|secret)_?key|(access|auth|bearer|api)_?token|.*passwd|.*password|.*secret",
    re.IGNORECASE,
)
_PARAMETER = r"""[\w.-]*(?:api-?_?key|token|secret|password|passwd|signature|credential)s?
    | (?:[\w.-]*[-_.])?(?:key|sig|auth|pwd)"""
_FORMS = (
    re.compile(r"(?P<kept>://)[^/\s?#@'\"]+(?=@)"),
    re.compile(rf"(?P<kept>[?&;](?:{_PARAMETER})=)[^&;#\s'\"]+", re.IGNORECASE | re.VERBOSE),
    re.compile(r"(?P<kept>\b(?:Bearer|Basic)\s+)[\w.~+/=-]{16,}", re.IGNORECASE),
    re.compile(
        r"""(?P<kept>)\b(?: hf_[A-Za-z0-9]{30,} | sk-[\w-]{20,} | gh[pousr]_[A-Za-z0-9]{36,}
        | github_pat_\w{22,} | glpat-[\w-]{20,} | (?:AKIA|ASIA)[0-9A-Z]{16}
        | xox[abeprs]-[\w-]{10,} | AIza[\w-]{35} )""",
        re.VERBOSE,
    ),
)
"""User and password in an address, a query parameter that names a secret, an Authorization
header, and the tokens of services whose tokens have a form of their own."""


def masked(text: str) -> str:
    """`text` with every secret in it replaced by MASK.

    Known are the forms above and the values of environment variables named like secrets
    (HF_TOKEN, OPENAI_API_KEY, AWS_SECRET_ACCESS_KEY) of SHORTEST_VALUE characters or more.
    """
    for value in _values():
        text = text.replace(value, MASK)
    for form in _FORMS:
        text = form.sub(lambda match: match["kept"] + MASK, text)
    return text


def secret_problems(tree: Any, path: str = "") -> Iterator[str]:
    """One line for each secret in a configuration tree. The lines do not repeat the secret."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            place = f"{path}.{key}" if path else str(key)
            if isinstance(value, str) and value and _SECRET_KEY.fullmatch(str(key)):
                yield _problem(place)
            else:
                yield from secret_problems(value, place)
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from secret_problems(value, f"{path}.{index}")
    elif isinstance(tree, str) and masked(tree) != tree:
        yield _problem(path)


def _problem(place: str) -> str:
    return (
        f"{place}: holds a password, token or key. A configuration is copied into the run folder "
        "and the report: keep secrets in environment variables, and name the variable where a "
        "setting takes one (verifier.token_variable)"
    )


def _values() -> list[str]:
    """Values of the environment's secrets, longest first: one may contain another."""
    found = {
        value
        for name, value in os.environ.items()
        if len(value) >= SHORTEST_VALUE and _SECRET_VARIABLE.search(name)
    }
    return sorted(found, key=len, reverse=True)
