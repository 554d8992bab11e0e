import json
import socket

import pytest

from rlvr_platform.config.verifiers_more import JsonSchemaVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.json_schema import JsonSchema

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}


def verify(prediction, schema=PERSON, **settings):
    verifier = JsonSchema(JsonSchemaVerifier(**settings))
    return verifier.verify(prediction, json.dumps(schema), {})


@pytest.mark.parametrize(
    "prediction",
    [
        '{"name": "Ada", "age": 36}',
        'Here it is:\n```json\n{"name": "Ada"}\n```\nDone.',
        '<think>{"age": -1}</think>{"name": "Ada"}',
    ],
)
def test_json_that_validates_is_correct(prediction):
    assert verify(prediction).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("prediction", "reason"),
    [
        ('{"age": 36}', "'name' is a required property"),
        ('{"name": "Ada", "age": -1}', "$.age"),
        ('{"name": "Ada", "age": true}', "$.age"),
        ('{"name": "Ada", "x": 1}', "Additional properties"),
        ("[]", "not of type"),
    ],
)
def test_json_that_does_not_validate_is_wrong_and_says_where(prediction, reason):
    found = verify(prediction)
    assert found.outcome is Outcome.WRONG
    assert reason in found.rule


@pytest.mark.parametrize("prediction", ["", "no", '{"name": NaN}', "[" * 100_000, '{"name": "A"'])
def test_what_is_no_json_is_no_answer(prediction):
    assert verify(prediction).outcome is Outcome.NO_ANSWER


def test_formats_are_checked_when_asked_for():
    date = {"type": "string", "format": "date"}
    assert verify('"2024-02-30"', date).outcome is Outcome.WRONG
    assert verify('"2024-02-29"', date).outcome is Outcome.CORRECT
    assert verify('"2024-02-30"', date, check_formats=False).outcome is Outcome.CORRECT


def test_a_schema_of_the_settings_replaces_the_gold_answer():
    verifier = JsonSchema(JsonSchemaVerifier(json_schema={"type": "integer"}))
    assert verifier.verify("7", "Paris", {}).outcome is Outcome.CORRECT
    assert verifier.verify('"7"', "Paris", {}).outcome is Outcome.WRONG


@pytest.mark.parametrize("gold", ["", "{", "3", '{"type": "nothing"}', '{"required": "name"}'])
def test_a_gold_answer_that_is_no_schema_is_an_error_even_for_an_empty_completion(gold):
    with pytest.raises(ValueError, match="schema"):
        JsonSchema(JsonSchemaVerifier()).verify("", gold, {})


def test_a_reference_to_an_address_is_an_error_and_nothing_is_fetched():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        server.settimeout(0.2)
        with pytest.raises(Exception, match="Unresolvable"):
            verify("{}", {"$ref": f"http://127.0.0.1:{port}/schema.json"})
        with pytest.raises(TimeoutError):
            server.accept()
