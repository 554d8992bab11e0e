import time

import pytest

from rlvr_platform.verifiers.text_answer import after_reasoning, text_answer


@pytest.mark.parametrize(
    ("completion", "text", "rule"),
    [
        (r"<answer>a</answer> \boxed{b} #### c", "b", "box"),
        (r"\boxed{}", "", "box"),
        ("<answer>a</answer> #### c", "a", "answer tag"),
        ("<answer>x</answer><answer>\n1 2\n3 4\n</answer>", "1 2\n3 4", "answer tag"),
        ("<answer>never closed", "", "answer tag"),
        ("so\n#### Paris \nbye", "Paris", "####"),
        ("#### Rome\n#### Paris", "Paris", "####"),
        ("The answer is **Paris**.\nBye", "Paris", "answer statement"),
        ("Answer: 1\nno, answer: 2", "2", "answer statement"),
        ("It lies in France.\nParis.", "Paris", "last line"),
        ("<think>The answer is Rome</think>Paris", "Paris", "last line"),
        ("<think>The answer is Rome", "", "last line"),
        ("", "", "last line"),
    ],
)
def test_the_most_explicit_form_after_the_reasoning_is_the_answer(completion, text, rule):
    answer = text_answer(completion)
    assert (answer.text, answer.rule) == (text, rule)
    assert answer.marked == (rule in ("box", "answer tag", "####"))


def test_only_what_follows_the_last_reasoning_block_is_left():
    assert after_reasoning("<think>a</think> b") == "b"
    assert after_reasoning("a</think>b</thinking> c") == "c"
    assert after_reasoning("a <think> b") == "a"


@pytest.mark.parametrize(
    "piece", ["\\boxed{", "<answer>", "answer is ", "\n", "<think>", "</think>"]
)
def test_ten_megabytes_take_a_moment(piece):
    started = time.process_time()
    text_answer(piece * (10_000_000 // len(piece)))
    assert time.process_time() - started < 5
