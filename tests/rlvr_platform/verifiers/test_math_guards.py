import pytest

from rlvr_platform.verifiers.math_guards import bounded, restates, says_more


@pytest.mark.parametrize(
    "text",
    [r"9^{9^9}", "123456!", r"3^{99999}", r"\binom{10000}{5}", r"\pm" * 5, "(" * 50, "x" * 2000],
)
def test_costly_expressions_are_not_bounded(text):
    assert not bounded(text)


@pytest.mark.parametrize(
    "text", [r"x^{100}+1", "20!", r"\int_0^1 x^2 dx", r"x^2+y^2", "x^{2}y^{2}"]
)
def test_ordinary_expressions_are_bounded(text):
    assert bounded(text)


def test_an_operation_is_left_to_do_only_where_the_gold_answer_has_none():
    assert restates("55", r"\sum_{k=1}^{10} k")
    assert restates("4", "gcd(8, 12)")
    assert not restates(r"\int f", r"\int f")
    assert not restates(r"\sum_k k", "55")


def test_words_beyond_those_of_the_gold_answer_are_noticed():
    assert says_more("9", r"\text{not } 9")
    assert not says_more(r"9\text{ apples}", r"9\text{ apples}")
