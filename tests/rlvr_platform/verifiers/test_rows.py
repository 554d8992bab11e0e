import json

import pytest

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import InputError
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool
from rlvr_platform.verifiers.rows import (
    FIELDS,
    Lines,
    MalformedRow,
    Row,
    grade_rows,
    parse_labelled,
    parse_row,
)


def row(parse=parse_row, **more):
    record = {"id": 1, "gold": "42", "prediction": "x", **more}
    return parse(json.dumps(record).encode(), FIELDS)


@pytest.mark.parametrize(
    ("gold", "text"),
    [("42", "42"), (42, "42"), (42.0, "42"), ({"a": [1]}, '{"a": [1]}'), ([1, "b"], '[1, "b"]')],
)
def test_gold_answers_become_text(gold, text):
    assert row(gold=gold).item.gold == text


@pytest.mark.parametrize(
    ("value", "options"),
    [(None, {}), ({"choices": ["a"]}, {"choices": ["a"]}), (["a", "b"], {"options": ["a", "b"]})],
)
def test_options_are_an_object_or_one_option_named_like_the_column(value, options):
    assert row(options=value).item.options == options


def test_a_prediction_may_be_given_by_its_parts():
    assert row(prediction=None, prediction_parts=[["ab", 3], ["c", 1]]).item.prediction == "abababc"


@pytest.mark.parametrize("label", [None, "true", 2, 0.5])
def test_a_label_is_true_or_false(label):
    with pytest.raises(MalformedRow, match="expected is"):
        row(parse_labelled, expected=label)


def test_labels_are_truth_values_and_rows_without_a_class_are_of_class_all():
    found = [row(parse_labelled, expected=label) for label in (True, 1, 0)]
    assert [f.label for f in found] == [True, True, False]
    assert found[0].kind == "all"


def test_what_breaks_while_reading_is_an_input_error():
    def lines():
        yield b'{"id": 1, "gold": "a", "prediction": "a"}'
        raise OSError("disk gone")

    with VerifierPool(VerifierConfig(use=ExactVerifier())) as pool:
        graded = grade_rows(Lines(lines(), parse_row, FIELDS), [pool])
        assert next(graded)[0].id == 1
        with pytest.raises(InputError, match="disk gone"):
            next(graded)


def test_each_pool_gives_a_verdict():
    configs = [VerifierConfig(use=ExactVerifier(ignore_case=flag)) for flag in (False, True)]
    with VerifierPool(configs[0]) as first, VerifierPool(configs[1]) as second:
        rows = [Row(i, GradeItem("A", "a")) for i in range(300)]
        graded = list(grade_rows(rows, [first, second]))
    assert [r.id for r, _ in graded] == list(range(300))
    assert {tuple(v.outcome for v in verdicts) for _, verdicts in graded} == {("wrong", "correct")}
