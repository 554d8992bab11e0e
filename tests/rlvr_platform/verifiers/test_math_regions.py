import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.math_regions import same_region
from rlvr_platform.verifiers.math_structure import read_shape


def same(a: str, b: str) -> bool | None:
    return same_region(read_shape(a), read_shape(b))


@given(st.integers(-9, 8), st.sampled_from("(["), st.sampled_from(")]"), st.sampled_from([1, 2]))
def test_intervals_differ_in_each_end_and_each_bracket(low, left, right, length):
    text = f"{left}{low}, {low + length}{right}"
    assert same(text, text)
    assert same(text, f"{left}{low}, {low + length + 1}{right}") is False
    assert same(text, f"{'[' if left == '(' else '('}{low}, {low + length}{right}") is False


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (r"(-\infty,1)\cup(1,\infty)", r"\mathbb{R}\setminus\{1\}", True),
        (r"[0,1]\cup[1,2]", "[0,2]", True),
        (r"(0,1)\cup(1,2)", "(0,2)", False),
        (r"x<1 \or x>2", r"(-\infty,1)\cup(2,\infty)", True),
        (r"|x|\le 2", "[-2,2]", True),
        (r"x^2>4", r"(-\infty,-2)\cup(2,\infty)", True),
        (r"\{x|0<x<1\}", "(0,1)", True),
        ("(a,b)", "(0,1)", None),
    ],
)
def test_regions_are_equal_by_membership(a, b, equal):
    assert same(a, b) is equal


@given(st.permutations([rf"({2 * n},{2 * n + 1})" for n in range(150)]), st.integers(0, 149))
def test_unions_of_any_length_may_be_written_in_any_order(pieces, without):
    gold = r" \cup ".join(sorted(pieces))
    assert same(gold, r" \cup ".join(pieces)) is True
    assert same(gold, r" \cup ".join(pieces[:without] + pieces[without + 1 :])) is False
