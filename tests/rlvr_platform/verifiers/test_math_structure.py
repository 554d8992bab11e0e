import pytest

from rlvr_platform.verifiers.math_structure import (
    Builder,
    Matrix,
    Relation,
    Scalar,
    Sequence,
    SetExpression,
    Words,
    read_shape,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x+1", Scalar),
        ("1,234", Scalar),
        ("odd", Words),
        ("1, 2", Sequence),
        (r"\{1,2\}", Sequence),
        ("[1,2)", Sequence),
        ("3:4", Sequence),
        (r"(0,1)\cup(2,3)", SetExpression),
        (r"\{x|x>1\}", Builder),
        ("a<b<c", Relation),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", Matrix),
    ],
)
def test_the_shape_is_read_from_the_text(text, kind):
    assert isinstance(read_shape(text), kind)


def test_plus_minus_is_written_out_and_joins_the_list_around_it():
    assert [item.text for item in read_shape(r"\pm 2").items] == ["2", "- 2"]
    assert len(read_shape(r"0, \pm 1, \pm 2").items) == 5
    assert len(read_shape(r"(1, \pm 2)").items) == 2
    assert isinstance(read_shape(r"\pm 1" * 20), Scalar)


def test_commas_inside_brackets_separate_and_outside_may_group_digits():
    assert len(read_shape("(100,200)").items) == 2
    assert read_shape("100,200") == Scalar("100200")
