import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.verifiers_composite import CompositeVerifier, WeightedVerifier
from rlvr_platform.config.verifiers_more import (
    CountdownVerifier,
    EndpointVerifier,
    FormatVerifier,
    RegexVerifier,
)
from rlvr_platform.errors import ConfigError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.composite import Composite

THINK = FormatVerifier(checks=({"check": "think_format"},))
BOX = FormatVerifier(checks=({"check": "boxed_required"}, {"check": "no_comma"}), credit="partial")


def part(use, weight=1.0, gold_column=""):
    return WeightedVerifier(use=use, weight=weight, gold_column=gold_column)


def verify(prediction, parts, outcome_from="", gold="42", options=None):
    config = CompositeVerifier(parts=parts, outcome_from=outcome_from)
    return Composite(config).verify(prediction, gold, options or {})


ANSWER_AND_FORM = {"answer": part(RegexVerifier(), 3), "form": part(THINK, 1)}


@pytest.mark.parametrize(
    ("prediction", "score", "outcome"),
    [
        ("<think>so</think>42", 1.0, Outcome.CORRECT),
        ("42", 0.75, Outcome.WRONG),
        ("<think>so</think>41", 0.25, Outcome.WRONG),
        ("41", 0.0, Outcome.WRONG),
        ("", 0.0, Outcome.NO_ANSWER),
    ],
)
def test_the_score_is_the_weighted_mean(prediction, score, outcome):
    found = verify(prediction, ANSWER_AND_FORM)
    assert (found.score, found.outcome) == (score, outcome)


def test_one_part_may_decide_the_outcome_and_be_the_one_shown():
    found = verify("42", ANSWER_AND_FORM, outcome_from="answer")
    assert (found.outcome, found.score, found.extracted) == (Outcome.CORRECT, 0.75, "42")
    assert verify("<think>so</think>41", ANSWER_AND_FORM, "answer").outcome is Outcome.WRONG
    assert "answer correct" in found.rule
    assert "form wrong (not met: think_format)" in found.rule


def test_partial_scores_of_parts_count_as_they_are():
    parts = {"answer": part(RegexVerifier()), "box": part(BOX)}
    assert verify("42", parts).score == 0.75


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6))
def test_scores_stay_shares_for_any_weights(weights):
    parts = {str(i): part(RegexVerifier(), weight) for i, weight in enumerate(weights)}
    assert verify("42", parts).score == pytest.approx(1.0)
    assert verify("41", parts).score == 0.0


def test_a_part_may_have_a_reference_answer_of_its_own():
    parts = {
        "value": part(CountdownVerifier(use="any_numbers"), gold_column="target"),
        "form": part(RegexVerifier()),
    }
    found = verify("6*7", parts, gold=r"\d\*\d", options={"target": "42"})
    assert found.outcome is Outcome.CORRECT
    with pytest.raises(VerifierError, match="part value: ValueError: option 'target'"):
        verify("6*7", parts, gold=r"\d\*\d")


def test_an_error_of_a_part_is_an_error_of_the_whole_and_names_the_part():
    with pytest.raises(VerifierError, match="part answer: ValueError"):
        verify("42", ANSWER_AND_FORM, gold="(")


def test_a_timeout_of_a_part_is_a_timeout_of_the_whole():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        judge = EndpointVerifier(url=url, deadline_s=0.2, attempts=1)
        found = verify("42", {"answer": part(RegexVerifier()), "judge": part(judge)})
    assert (found.outcome, found.score) == (Outcome.TIMEOUT, None)
    assert found.rule.startswith("part judge: ")


def test_the_deciding_part_must_exist():
    with pytest.raises(ConfigError, match="answers"):
        verify("42", ANSWER_AND_FORM, outcome_from="answers")
