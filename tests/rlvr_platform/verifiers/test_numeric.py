from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.numeric import NumericTolerance, read_number

EXACT = NumericTolerance(relative=0.0, absolute=0.0)
DEFAULT = NumericTolerance(relative=1e-6, absolute=1e-9)


@given(st.text("abc .,=$", max_size=20), st.integers(-(10**30), 10**30), st.booleans())
def test_the_last_integer_is_read_exactly_with_and_without_separators(before, number, separated):
    text = f"{before} {number:,}" if separated else f"{before} {number}"
    assert EXACT.verify(text, str(number), {}).outcome is Outcome.CORRECT
    assert EXACT.verify(text, str(number + 1), {}).outcome is Outcome.WRONG


@given(st.integers(-1000, 1000), st.integers(1, 1000))
def test_a_fraction_equals_its_decimal_value(numerator, denominator):
    gold = float(Fraction(numerator, denominator))
    verdict = DEFAULT.verify(f"it is {numerator}/{denominator}", f"{gold:.12f}", {})
    assert verdict.outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("prediction", "extracted"),
    [
        ("the total is $29.00.", "$29.00"),
        (r"\boxed{9{,}500}", "9,500"),
        ("The answer is 72, in total", "72"),
        ("16-3", "3"),
        ("x = -3", "-3"),
        ("it is \u22125 degrees", "-5"),
        ("about .5", ".5"),
        ("1, 2, then 3", "3"),
        ("50%", "50%"),
        ("3 in room B12", "3"),
        ("2.5e-3 m", "2.5e-3"),
        ("3 / 4 of it", "3 / 4"),
        ("(12)", "12"),
    ],
)
def test_the_last_number_is_found(prediction, extracted):
    assert DEFAULT.verify(prediction, "1", {}).extracted == extracted


@pytest.mark.parametrize(
    ("prediction", "gold", "close"),
    [
        ("0.333333", "0.333333333333", True),
        ("0.3333", "0.333333333333", False),
        ("1e400", "5.0", False),
        ("1/0", "5.0", False),
        ("9" * 5000, "5.0", False),
        ("1e999999999999999999", "5.0", False),
        ("7", "+7", True),
        ("1,234.50", "$1234.5", True),
        ("25", "25%", True),
    ],
)
def test_tolerance_decides_and_extremes_do_not_pass(prediction, gold, close):
    assert (DEFAULT.verify(prediction, gold, {}).outcome is Outcome.CORRECT) == close


def test_relative_tolerance_scales_with_the_gold_number():
    tenth = NumericTolerance(relative=0.1, absolute=0.0)
    assert tenth.verify("4.40", "4.0", {}).outcome is Outcome.CORRECT
    assert tenth.verify("4.44", "4.0", {}).outcome is Outcome.WRONG


@pytest.mark.parametrize("prediction", ["", "none at all", "nan", "inf", "\ud800"])
def test_a_completion_without_a_number_has_no_answer(prediction):
    assert DEFAULT.verify(prediction, "5", {}).outcome is Outcome.NO_ANSWER


@pytest.mark.parametrize("gold", ["", "five", "4.0 (tol 10%)", "1 or 2", "1/0", "nan"])
def test_gold_that_is_not_one_number_is_refused(gold):
    with pytest.raises(ValueError, match="not a number"):
        read_number(gold)


@pytest.mark.parametrize(
    ("prediction", "gold", "outcome"),
    [
        (r"\boxed{12} since 5 + 7", "12", Outcome.CORRECT),
        ("<answer>12</answer> of 40", "12", Outcome.CORRECT),
        ("12 or 13", "13", Outcome.WRONG),
        ("11 12 13", "13", Outcome.WRONG),
        (r"\boxed{\frac{3}{4}}", "0.75", Outcome.CORRECT),
        (r"1.5 \times 10^{4}", "15000", Outcome.CORRECT),
        ("2 million", "2000000", Outcome.CORRECT),
        ("5 m", "5 cm", Outcome.WRONG),
        ("5 centimeters", "5 cm", Outcome.CORRECT),
        ("5", "5 cm", Outcome.CORRECT),
        (r"\boxed{5 cm^2}", "5", Outcome.CORRECT),
        (r"\boxed{2^6}", "64", Outcome.CORRECT),
        (r"\boxed{2^6}", "6", Outcome.WRONG),
        (r"\boxed{10^{-5}}", "0.00001", Outcome.CORRECT),
        (r"\boxed{3 \cdot 4}", "4", Outcome.WRONG),
        (r"\boxed{3x}", "3", Outcome.WRONG),
        (r"\boxed{20 + x}", "20", Outcome.WRONG),
        (r"\boxed{\sqrt{2}}", "1.41421356", Outcome.CORRECT),
        (r"\boxed{2^{99999999999}}", "2", Outcome.WRONG),
        ("<think>it is 12</think> I give up.", "12", Outcome.NO_ANSWER),
    ],
)
def test_the_marked_answer_counts_and_must_be_one_number(prediction, gold, outcome):
    assert DEFAULT.verify(prediction, gold, {}).outcome is outcome


def test_percent_signs_and_units_follow_their_options():
    scaled = NumericTolerance(1e-6, 1e-9, percent="scale", units="ignore")
    assert scaled.verify("25%", "0.25", {}).outcome is Outcome.CORRECT
    assert scaled.verify("25", "25%", {}).outcome is Outcome.WRONG
    assert scaled.verify("5 m", "5 cm", {}).outcome is Outcome.CORRECT
