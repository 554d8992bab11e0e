import pytest

from rlvr_platform.verifiers.math_words import counted, same_choice, spelled, spelled_in


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
        ("five dozen", "60"),
        ("half a million", r"\frac{1}{2}\cdot 1000000"),
        ("negative seven", "-7"),
        ("minus infinity", r"-\infty"),
    ],
)
def test_numbers_in_words_are_read(words, digits):
    assert spelled(words) == digits


@pytest.mark.parametrize("words", ["", "and", "hundred", "seven eleven", "twenty twenty", "a pair"])
def test_other_words_are_no_numbers(words):
    assert spelled(words) == ""


@pytest.mark.parametrize(
    ("sentence", "digits"),
    [
        ("It took two and three-eighths cups.", [r"2\frac{3}{8}"]),
        ("Three thousand, two hundred five people came.", ["3205"]),
        ("She came in twenty-first, he in third.", ["21"]),
        ("The two of them, and those three, were the one thing missing.", []),
        ("He saw four cats and nine dogs.", ["4", "9"]),
    ],
)
def test_numbers_in_a_sentence_are_found_unless_they_point_at_something(sentence, digits):
    assert [found for _, found in spelled_in(sentence)] == digits


def test_what_is_counted_may_follow_a_number_and_no_second_number_may():
    assert counted("forty two such pairs") == r"42\text{ such pairs}"
    assert counted("two of three") == counted("two or more") == counted("such pairs") == ""


def test_a_choice_may_be_followed_by_its_text_and_by_no_other_choice():
    assert same_choice("B", "(B) both I and II only")
    assert not same_choice("B", r"(B) \or (C)")
    assert not same_choice("B", "(C) 7")
