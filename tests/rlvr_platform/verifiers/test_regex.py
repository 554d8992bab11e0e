import pytest

from rlvr_platform.config.verifiers_more import RegexVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.regex import RegularExpression


def outcome(prediction, gold, **settings):
    return RegularExpression(RegexVerifier(**settings)).verify(prediction, gold, {}).outcome


def test_the_final_answer_must_match_as_a_whole():
    assert outcome(r"First 7, so \boxed{42}", r"4\d") is Outcome.CORRECT
    assert outcome(r"First 42, so \boxed{421}", r"4\d") is Outcome.WRONG
    assert outcome("The answer is: 42.", r"4\d") is Outcome.CORRECT


def test_search_finds_it_anywhere_and_completion_reads_all_after_the_reasoning():
    settings = {"match": "search", "read": "completion"}
    assert outcome("<think>7</think>about 42 metres", r"4\d", **settings) is Outcome.CORRECT
    assert outcome("<think>42</think>about 7 metres", r"4\d", **settings) is Outcome.WRONG


def test_case_counts_unless_the_settings_say_otherwise():
    assert outcome("PARIS", "paris") is Outcome.WRONG
    assert outcome("PARIS", "paris", ignore_case=True) is Outcome.CORRECT


def test_a_pattern_of_the_settings_replaces_the_gold_answer():
    assert outcome("42", "(", pattern=r"\d+") is Outcome.CORRECT


@pytest.mark.parametrize("gold", ["(", "", "a{99999999999}", "(?P<x>"])
def test_a_gold_answer_that_is_no_pattern_is_an_error_even_for_an_empty_completion(gold):
    with pytest.raises(ValueError, match="regular expression"):
        outcome("", gold)


@pytest.mark.parametrize("prediction", ["", "  ", r"\boxed{}"])
def test_without_text_there_is_no_answer(prediction):
    assert outcome(prediction, ".*") is Outcome.NO_ANSWER
