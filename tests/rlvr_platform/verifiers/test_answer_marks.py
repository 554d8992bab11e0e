import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.answer_marks import boxed, boxes, last_box, last_joined, tagged

balanced = st.recursive(
    st.text("ab1+ \\,", max_size=6).filter(lambda t: not t.endswith("\\")),
    lambda inner: st.lists(inner.map(lambda t: "{" + t + "}"), max_size=3).map("".join),
    max_leaves=8,
)


@given(st.text(), balanced.filter(str.strip))
def test_the_last_box_is_found_whatever_stands_before_it(before, content):
    assert last_box(before + " $" + boxed(content) + "$ }} {") == content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{1} then \boxed{ }", "1"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{x = \boxed{5}}", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed {\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox{3}", "3"),
        (r"\\boxed{4}", "4"),
        (r"\boxed{}", ""),
        ("no box {1}", ""),
    ],
)
def test_the_last_box_that_closes_and_is_not_empty_counts(text, content):
    assert last_box(text) == content


@pytest.mark.parametrize("joint", [", ", " and ", r"\text{ or }", "\n", ", or perhaps ", " $ "])
def test_boxes_with_nothing_of_weight_between_them_are_one_list(joint):
    text = rf"first \boxed{{0}} is wrong, so \boxed{{1}}{joint}\boxed{{2}}{joint}\boxed{{1}}."
    assert last_joined(text, boxes(text)) == "1, 2"


def test_tags_are_joined_like_boxes_and_an_empty_last_one_is_no_answer():
    text = "<answer>1</answer> or maybe <answer>2</answer>"
    assert last_joined(text, tagged(text)) == "1, 2"
    text += " <answer> </answer>"
    assert last_joined(text, tagged(text)) == ""
