"""`--verifier NAME --option KEY=VALUE`: verifiers and their settings from the command line."""

from __future__ import annotations

import argparse
import json
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rlvr_platform.config.base import Section
from rlvr_platform.config.loader import apply_overrides
from rlvr_platform.config.verifier import AnyVerifier
from rlvr_platform.errors import ConfigError


def _sections(annotation: Any) -> list[type[Section]]:
    """The section classes of a union, however it is nested."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Section) else []
    return [section for part in typing.get_args(annotation) for section in _sections(part)]


KINDS = {section.model_fields["kind"].default: section for section in _sections(AnyVerifier)}
"""Section class of each verifier's name."""
_MOST = 2


@dataclass(frozen=True, slots=True)
class ChosenVerifier:
    """A verifier as given on the command line."""

    name: str
    """Kind and options, for reports."""
    use: Any
    """Its section."""


class Choice(argparse.Action):
    """Collects verifiers and options in one list, so that their order is kept."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, [*given, (option_string == "--option", values)])


def read_choices(given: Sequence[tuple[bool, str]]) -> list[ChosenVerifier]:
    """One or two verifiers; an option belongs to the verifier before it, if there is one.

    `given`: (is an option, text) in the order of the command line, at least one verifier among
    them. Raises ConfigError for more verifiers and for options that the verifier does not take.
    """
    kinds = [text for is_option, text in given if not is_option]
    if len(kinds) > _MOST:
        raise ConfigError(f"{len(kinds)} verifiers", "one, or two to compare")
    options: list[list[str]] = [[] for _ in kinds]
    seen = 0
    for is_option, text in given:
        if is_option:
            options[max(seen - 1, 0)].append(text)
        else:
            seen += 1
    return [_choose(kind, own) for kind, own in zip(kinds, options, strict=True)]


def _choose(kind: str, options: Sequence[str]) -> ChosenVerifier:
    tree = apply_overrides({}, options)
    try:
        use = KINDS[kind].model_validate_json(json.dumps(tree))
    except ValidationError as error:
        problems = "; ".join(_describe(kind, problem) for problem in error.errors())
        raise ConfigError(
            f"the verifier {kind} cannot be set up: {problems}",
            f"--option KEY=VALUE with these keys: {', '.join(_keys(kind)) or 'none'}",
        ) from None
    return ChosenVerifier(" ".join((kind, *options)), use)


def _keys(kind: str) -> list[str]:
    return [name for name in KINDS[kind].model_fields if name != "kind"]


def _describe(kind: str, problem: Any) -> str:
    key = ".".join(map(str, problem["loc"])) or kind
    match problem["type"]:
        case "extra_forbidden":
            return f"it has no option {key}"
        case "missing":
            return f"it needs {key}"
    return f"{key}: {problem['msg']}, got {problem['input']!r:.80}"
