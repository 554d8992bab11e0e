import pytest

from rlvr_platform.verifiers.math_words import spelled


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("zero", "0"),
        ("seventeen", "17"),
        ("forty two", "42"),
        ("one hundred and six", "106"),
        ("two thousand three hundred forty five", "2345"),
        ("one million", "1000000"),
        ("twelfth", "12"),
        ("twenty third", "23"),
        ("thirtieth", "30"),
        ("three quarters", r"\frac{3}{4}"),
        ("two and a half", r"2\frac{1}{2}"),
        ("negative seven", "-7"),
        ("minus infinity", r"-\infty"),
    ],
)
def test_numbers_in_words_are_read(words, digits):
    assert spelled(words) == digits


@pytest.mark.parametrize("words", ["", "and", "hundred", "seven eleven", "twenty twenty", "a pair"])
def test_other_words_are_no_numbers(words):
    assert spelled(words) == ""
