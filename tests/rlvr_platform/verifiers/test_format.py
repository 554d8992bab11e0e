import json
from pathlib import Path

import pytest

from rlvr_platform.config.verifiers_more import FormatVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.format import FormatInstructions

TWO = [{"check": "no_comma"}, {"check": "word_count", "n": 2, "relation": "exactly"}]


def verify(prediction, gold, **settings):
    return FormatInstructions(FormatVerifier(**settings)).verify(prediction, gold, {})


def test_all_checks_of_the_gold_answer_must_hold():
    assert verify("two words", json.dumps(TWO)).outcome is Outcome.CORRECT
    found = verify("one, two", json.dumps(TWO))
    assert (found.outcome, found.rule) == (Outcome.WRONG, "not met: no_comma")
    assert verify("one two", json.dumps(TWO[1])).outcome is Outcome.CORRECT


def test_partial_credit_pays_the_share_of_the_checks():
    scores = [
        verify(text, json.dumps(TWO), credit="partial").score
        for text in ("two words", "one, two", "now, one two")
    ]
    assert scores == [1.0, 0.5, 0.0]
    assert verify("one, two", json.dumps(TWO)).score is None


def test_checks_of_the_settings_replace_the_gold_answer():
    checks = ({"check": "think_format"},)
    assert verify("<think>a</think>b", "Paris", checks=checks).outcome is Outcome.CORRECT
    assert verify("b", "Paris", checks=checks).outcome is Outcome.WRONG


def test_an_empty_completion_is_no_answer_even_where_the_checks_hold():
    at_most = json.dumps({"check": "word_count", "n": 5, "relation": "at most"})
    assert verify(" ", at_most).outcome is Outcome.NO_ANSWER


@pytest.mark.parametrize("gold", ["", "[]", "no JSON", "3", '{"check": "none_such"}', '"json"'])
def test_a_gold_answer_without_checks_is_an_error_even_for_an_empty_completion(gold):
    with pytest.raises(ValueError, match="check"):
        verify("", gold)


def test_a_bad_check_of_the_settings_is_refused_at_the_start():
    with pytest.raises(ValueError, match="none_such"):
        FormatInstructions(FormatVerifier(checks=({"check": "none_such"},)))


CASES = Path(__file__).parents[4] / "shared" / "cases" / "verifier_cases.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the labelled cases are not there")
def test_labelled_hard_cases_are_judged_as_labelled():
    pytest.importorskip("py3langid")
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "format" and row["firm"]]
    wrong = [
        row["id"]
        for row in rows
        if (verify(row["prediction"], json.dumps(row["gold"])).outcome is Outcome.CORRECT)
        != row["expected"]
    ]
    assert len(wrong) <= 0.05 * len(rows), wrong
