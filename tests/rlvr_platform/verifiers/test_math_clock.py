import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.math_clock import same_date, same_parts, same_time


@given(st.integers(1, 12), st.integers(0, 59), st.sampled_from("ap"))
def test_a_time_equals_itself_in_every_spelling_and_not_in_the_other_half_of_the_day(
    hour, minute, half
):
    gold = rf"\text{{{hour}:{minute:02d} {half}.m.}}"
    assert same_time(gold, rf"{hour}{{:}}{minute:02d}\text{{ {half.upper()}M}}") is True
    assert same_time(gold, f"{hour}:{minute:02d}") is True
    other = "a" if half == "p" else "p"
    assert same_time(gold, f"{hour}:{minute:02d} {other}m") is False
    assert same_time(gold, f"{hour}:{(minute + 1) % 60:02d} {half}m") is False


def test_a_whole_hour_needs_no_minutes_and_a_day_has_24():
    assert same_time("3 p.m.", "3:00 PM") is True
    assert same_time("3 p.m.", "15:00") is True
    assert same_time("3 p.m.", "3:05") is False


@pytest.mark.parametrize(("gold", "answer"), [("3:4", "3:4"), ("3", "4"), ("x", "3 pm")])
def test_what_names_no_half_of_the_day_is_no_time(gold, answer):
    assert same_time(gold, answer) is None


def test_each_unit_has_to_have_its_number():
    gold = r"5\text{ ft }10\text{ in}"
    assert same_parts(gold, r"5\text{ feet} \and 10\text{ inches}") is True
    assert same_parts(gold, r"5\text{ ft }1\text{ in}") is False
    assert same_parts(gold, r"5\text{ ft}") is False
    assert same_parts("5 ft", "5 ft") is None


def test_a_day_is_the_same_in_both_orders_and_may_lack_the_year_in_the_gold_answer():
    gold = r"\text{July 4}, \text{2027}"
    assert same_date(gold, r"\text{4 July 2027}") is True
    assert same_date(gold, "the 4th of july 2027") is True
    assert same_date(gold, "July 4") is False
    assert same_date("July 4", "July 4, 2027") is True
    assert same_date("July 4", "July 5") is False


@pytest.mark.parametrize(
    "text", ["July", "4", "may be 4", "4 July and 5 July", r"\text{May }x", "3 marks"]
)
def test_what_does_not_name_one_day_is_no_date(text):
    assert same_date(text, text) is None
