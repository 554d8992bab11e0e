"""Settings of the verifiers beyond mathematics, numbers and exact text."""

from __future__ import annotations

from typing import Any, Literal

from rlvr_platform.config.base import Section, setting

Credit = Literal["all_or_nothing", "partial"]


class ExactVerifier(Section):
    """The whole completion, white space stripped, equals the gold text."""

    kind: Literal["exact"] = "exact"
    ignore_case: bool = setting(False, "Compare case-insensitively.")


class ChoiceVerifier(Section):
    """Multiple choice: the option that the completion states as its answer."""

    kind: Literal["choice"] = "choice"
    column: str = setting(
        "choices",
        "Option column with the choices: a list of texts or of labels, an object from label to "
        'text, or {"label": [...], "text": [...]}.',
    )
    labels: tuple[str, ...] = setting(
        ("A", "B", "C", "D"),
        "Labels of a list of texts, in order, and of records without the column.",
        min_length=2,
    )
    gold: Literal["label_or_text", "index"] = setting(
        "label_or_text", "What the reference answer is; index counts from 0."
    )


class RegexVerifier(Section):
    """A regular expression that the answer must match; by default the reference answer is it."""

    kind: Literal["regex"] = "regex"
    pattern: str = setting("", "Pattern for all records; empty: each record's reference answer.")
    read: Literal["answer", "completion"] = setting(
        "answer", "What is matched: the final answer, or all that follows the reasoning block."
    )
    match: Literal["full", "search"] = setting(
        "full", "full: the pattern covers all of it. search: the pattern occurs in it."
    )
    ignore_case: bool = setting(False, "Match case-insensitively.")


class JsonSchemaVerifier(Section):
    """JSON that validates against a schema; by default the reference answer is the schema."""

    kind: Literal["json_schema"] = "json_schema"
    json_schema: dict[str, Any] | None = setting(
        None, "Schema for all records; none: each record's reference answer, as JSON text."
    )
    check_formats: bool = setting(
        True, 'Whether "format" (date, email, ...) is checked, where jsonschema can.'
    )


class FormatVerifier(Section):
    """Instructions on the form of a completion; by default the reference answer holds them."""

    kind: Literal["format"] = "format"
    checks: tuple[dict[str, Any], ...] = setting(
        (),
        'Checks for all records, e.g. {"check": "think_format"}; empty: each record\'s reference '
        "answer, as JSON text: one check or a list.",
    )
    credit: Credit = setting(
        "all_or_nothing", "partial pays the share of the checks that hold, as the score."
    )


class CountdownVerifier(Section):
    """An arithmetic expression over given numbers whose exact value is the reference answer."""

    kind: Literal["countdown"] = "countdown"
    column: str = setting("numbers", "Option column with the given numbers.")
    use: Literal["exactly_once", "at_most_once", "any_numbers"] = setting(
        "exactly_once",
        "How often each given number may occur; any_numbers: the expression is free and no column "
        "is read.",
    )
    operators: tuple[Literal["+", "-", "*", "/", "**"], ...] = setting(
        ("+", "-", "*", "/"), "Operators that may occur; - covers the sign too.", min_length=1
    )


class GymVerifier(Section):
    """The scorer that reasoning-gym ships with the generator of the task."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    column: str = setting(
        "metadata", "Option column with the task's metadata, which names its generator."
    )
    arguments: dict[str, dict[str, Any]] = setting(
        {},
        "Arguments by generator, as in data.train.options: some scorers depend on them. Scorers "
        "named here are loaded at the start, others when first met.",
    )
    credit: Credit = setting("partial", "partial pays the scorer's number as it is.")


class FunctionVerifier(Section):
    """A function of yours: f(prediction: str, gold: str, options: dict) -> bool or score."""

    kind: Literal["function"] = "function"
    path: str = setting(
        doc="package.module:function, or path/to/file.py:function.", pattern=r"^[^:]+:[^:]+$"
    )


class EndpointVerifier(Section):
    """A server that judges: POST {prediction, gold, options}, answer {correct} or {score}."""

    kind: Literal["endpoint"] = "endpoint"
    url: str = setting(doc="http:// or https:// address.", pattern=r"^https?://[^/\s]+\S*$")
    deadline_s: float = setting(
        4.0,
        "For all attempts together; keep it below pool.deadline_s, which kills the process. "
        "Seconds.",
        gt=0,
    )
    attempts: int = setting(
        3,
        "Requests at most. Each gets an equal share of the time that is left, so a slow server "
        "wants 1, or a longer deadline.",
        ge=1,
    )
    backoff_s: float = setting(
        0.1, "Pause before the second attempt; doubles with each further one. Seconds.", ge=0
    )
    token_variable: str = setting(
        "",
        "Name of the environment variable with a bearer token, in capitals, set wherever verifiers "
        "run; empty: none is sent.",
        pattern=r"^([A-Z_][A-Z0-9_]*)?$",
    )
