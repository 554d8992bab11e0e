import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.verifiers.json_text import fenced, parse_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda sub: st.lists(sub, max_size=4) | st.dictionaries(st.text(), sub, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_json_writes_is_read_back(value):
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        '{"a": NaN}',
        "-Infinity",
        "1e999",
        '{"a": 1, "a": 2}',
        '{"a": 1} more',
        "{'a': 1}",
        "[1,]",
        "01",
        "9" * 5000,
        "[" * 300 + "]" * 300,
        "[" * 10**6,
        '"\t"',
    ],
)
def test_what_is_not_strict_json_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("{}", "{}"),
        ("```json\n{}\n```", "{}"),
        ("```\n{}\n```", "{}"),
        ("see ```json\n[1]\n``` and ```JSON\n[2]\n``` done", "[2]"),
        ("```json\n{}", "```json\n{}"),
    ],
)
def test_the_last_closed_fence_counts_else_everything(text, block):
    assert fenced(text) == block
