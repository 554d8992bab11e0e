import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.exact import ExactText

visible = st.text().filter(str.strip)
space = st.text(" \t\n", max_size=3)


@given(visible, space, space)
def test_only_surrounding_white_space_is_ignored(text, before, after):
    verify = ExactText(ignore_case=False).verify
    assert verify(before + text + after, text, {}).outcome is Outcome.CORRECT
    assert verify(before + text + "." + after, text, {}).outcome is Outcome.WRONG


@pytest.mark.parametrize(("ignore_case", "outcome"), [(True, "correct"), (False, "wrong")])
def test_case_counts_unless_told_otherwise(ignore_case, outcome):
    assert ExactText(ignore_case).verify("Paris", "PARIS", {}).outcome == outcome


@pytest.mark.parametrize("gold", ["", "a"])
def test_an_empty_completion_is_no_answer_even_for_empty_gold(gold):
    assert ExactText(ignore_case=False).verify(" \n", gold, {}).outcome is Outcome.NO_ANSWER
