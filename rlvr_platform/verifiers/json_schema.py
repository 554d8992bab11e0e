"""JSON Schema: the completion is JSON that validates against a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema
import referencing
from jsonschema.protocols import Validator

from rlvr_platform.config.verifiers_more import JsonSchemaVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.json_text import fenced, parse_json
from rlvr_platform.verifiers.text_answer import after_reasoning


class JsonSchema:
    """The last fenced block, or else the whole completion, against the schema."""

    def __init__(self, config: JsonSchemaVerifier) -> None:
        """Raises ValueError when the schema of the settings is none."""
        self._check_formats = config.check_formats
        given = config.json_schema
        self._validator = None if given is None else self._compile(given)

    def verify(self, prediction: str, gold: str, options: Mapping[str, Any]) -> Finding:
        """Raises ValueError when `gold` is to be the schema and is none."""
        validator = self._validator or self._compile(_schema(gold))
        text = fenced(after_reasoning(prediction))
        if not text:
            return Finding(Outcome.NO_ANSWER, "", "empty completion")
        try:
            value = parse_json(text)
        except ValueError as error:
            return Finding(Outcome.NO_ANSWER, "", f"not JSON: {error}")
        problem = next(validator.iter_errors(value), None)
        if problem is None:
            return Finding(Outcome.CORRECT, text, "validates against the schema")
        return Finding(Outcome.WRONG, text, f"{problem.json_path}: {problem.message[:200]}")

    def _compile(self, schema: Any) -> Validator:
        if not isinstance(schema, dict | bool):
            raise ValueError(f"not a JSON schema but a {type(schema).__name__}")
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.SchemaError as error:
            raise ValueError(f"not a JSON schema: {error.message[:200]}") from None
        formats = kind.FORMAT_CHECKER if self._check_formats else None
        # An empty registry: a "$ref" to an address is an error instead of a download.
        return kind(schema, registry=referencing.Registry(), format_checker=formats)


def _schema(gold: str) -> Any:
    try:
        return parse_json(gold)
    except ValueError as error:
        raise ValueError(f"the gold answer {gold[:80]!r} is no JSON schema: {error}") from None
