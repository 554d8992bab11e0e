import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.code_compare import same_output


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("9", "9\n"),
        ("9 \r\n\n", "9\n"),
        ("  1   2\n3", "1 2\n3\n"),
        ("0.333333", "0.333333333333"),
        ("1e-7", "0.0"),
        ("1234567.9", "1234567.8"),
        ("5", "5.0"),
        ("3.0", "3"),
        ("-0.0", "0"),
        ("1e3", "1000"),
        ("Case #1: 0.50000001", "Case #1: 0.5"),
        ("nan inf", "nan inf"),
        ("", "\n"),
    ],
)
def test_accepted(output, expected):
    assert same_output(output, expected, 1e-6)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", "9"),
        ("9 9", "9"),
        ("1\n2", "1 2"),
        ("1\n\n2", "1\n2"),
        ("yes", "YES"),
        ("0.33", "0.333333333333"),
        ("nan", "5.0"),
        ("inf", "1e400"),
        ("7", "007"),
        ("3.0000001", "3"),
        ("10000000000000000000000001", "10000000000000000000000000"),
        ("1e9999", "1.0"),
        ("1" * 5000, "1.0"),
        ("\u0663", "3.0"),
        ("1_0", "10.0"),
        ("+3", "-3"),
        ("abc", "abd"),
    ],
)
def test_refused(output, expected):
    assert not same_output(output, expected, 1e-6)


@given(st.integers(), st.integers())
def test_whole_numbers_are_compared_exactly(a, b):
    assert same_output(str(a), str(b), 0.5) == (a == b)


@given(st.floats(-1e9, 1e9), st.floats(-1e-5, 1e-5))
def test_numbers_with_a_point_are_compared_with_the_tolerance(x, difference):
    expected = f"{x:.12f}"
    y = float(expected) + difference
    error = abs(float(f"{y:.12f}") - float(expected))
    bound = 1e-6 * max(1.0, abs(float(expected)))
    if abs(error - bound) > 1e-9 * max(1.0, bound):
        assert same_output(f"{y:.12f}", expected, 1e-6) == (error < bound)
