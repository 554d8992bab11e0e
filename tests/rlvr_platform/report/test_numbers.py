import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.report.numbers import gibibytes, number, seconds, short


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (8, "8"),
        (-3.0, "-3"),
        (12615416, "12,615,416"),
        (1234.56, "1,235"),
        (0.203125, "0.2031"),
        (2.337e-05, "2.337e-05"),
        (-0.05172, "-0.05172"),
        (1e20, "1e+20"),
    ],
)
def test_numbers_are_written_with_four_digits_or_in_full(value, text):
    assert number(value) == text


@given(st.floats(-1e300, 1e300))
def test_what_is_written_is_within_four_digits_of_the_number(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(
    ("value", "text"),
    [(15e6, "15M"), (250_000, "250k"), (2.5e9, "2.5G"), (5000, "5,000"), (0.1 + 0.2, "0.3")],
)
def test_an_axis_has_short_numbers(value, text):
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0001245, "0.0001245 s"), (34.46, "34.46 s"), (94.3, "1 min 34 s")]
)
def test_times_are_readable_from_microseconds_to_hours(value, text):
    assert seconds(value) == text


def test_memory_is_in_gibibytes():
    assert gibibytes(3 * 2**29) == "1.50 GiB"
