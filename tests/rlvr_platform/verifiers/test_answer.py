import time

import pytest

from rlvr_platform.verifiers.answer import final_answer


@pytest.mark.parametrize(
    ("completion", "text", "rule"),
    [
        (r"<answer>1</answer> $\boxed{2}$ #### 3", "2", "box"),
        ("<answer>1</answer> #### 3", "1", "answer tag"),
        ("<answer>0</answer> or rather <answer> 1. </answer>", "1", "answer tag"),
        ("So it is 12.\n#### 12", "12", "####"),
        ("#### 12.\nthanks", "12", "####"),
        ("The answer is 3.\nOr not: the answer is **4**.", "4", "answer statement"),
        ("Final Answer: x + 1.", "x + 1", "answer statement"),
        ("**Answer**: 7", "7", "answer statement"),
        ("we get 18", "we get 18", "last expression"),
        (r"<think>\boxed{1}</think> It is \boxed{2}.", "2", "box"),
        (r"<think>a</think><think>\boxed{1}</think> the answer is 5", "5", "answer statement"),
    ],
)
def test_the_most_explicit_form_after_the_reasoning_is_the_answer(completion, text, rule):
    answer = final_answer(completion)
    assert answer is not None
    assert (answer.text, answer.rule) == (text, rule)


@pytest.mark.parametrize(
    "completion",
    [
        "",
        " \n",
        r"<think>it must be \boxed{42}",
        r"<think>\boxed{42}</think>",
        r"the total is 42, $\boxed{ }$",
        r"$\boxed{42",
        "42 <answer></answer>",
        "<answer>42",
        "####",
        "The answer is:",
        "We have 40 + 2 =",
        "Now 84 divided by 2 is",
        "Is it 42?",
        "Let n = 42.",
        "Assume the answer is 42",
        "Suppose the answer is 42. The sum of the digits contradicts that.",
        "We tried x = 42 but it fails.",
    ],
)
def test_an_answer_that_is_missing_or_cut_off_is_none(completion):
    assert final_answer(completion) is None


@pytest.mark.parametrize("text", [r"\boxed{" * 10**5, "<answer>" * 10**5, "answer is " * 10**6])
def test_adversarial_repetition_costs_linear_time(text):
    started = time.perf_counter()
    final_answer(text)
    assert time.perf_counter() - started < 2.0


@pytest.mark.parametrize(
    ("completion", "expression"),
    [
        ("The ratio is sqrt(3)/3.", "sqrt(3)/3"),
        ("The total is 42 clips, altogether.", "42 clips"),
        ("The roots are $2$ and $3$.", "2, 3"),
        (r"So \boxed{2} and \boxed{3}", "2, 3"),
        ("The value of $f(3)$ is 42.", "42"),
        ("So n is $5$ million.", r"5\text{ million}"),
        ("A: 26\n\nQuestion: 3 + 4?\nA: 7", "26"),
        ("The answer is 42<|im_end|>", "42"),
        ("<Answer>42</Answer>", "42"),
        ("Hence x = 42. I hope this helps!", "x = 42"),
        ("Hence x = 42. Shall I go on?", "x = 42"),
        ("The least value is 42, attained at $t=3$.", "42"),
        ("Nobody left, so it was **42** apples", "42 apples"),
        ("This leaves 4ab - b.", "4ab - b"),
        ("We need m < -3.", "m < -3"),
        ("=> 42", "42"),
        ("The bus leaves at 7 p.m.", "7 p.m"),
        ("If we add them, the answer is 42.", "42"),
    ],
)
def test_the_sentence_around_the_answer_is_taken_off(completion, expression):
    answer = final_answer(completion)
    assert answer is not None
    assert answer.expression == expression


@pytest.mark.parametrize("text", ["It took 42 steps. I could not finish.", "x is not equal to 42"])
def test_a_number_in_passing_is_no_answer(text):
    answer = final_answer(text)
    assert answer is None or answer.expression != "42"
