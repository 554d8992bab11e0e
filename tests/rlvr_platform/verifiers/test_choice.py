import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.verifiers_more import ChoiceVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.choice import MultipleChoice

PLAIN = MultipleChoice(ChoiceVerifier())
CITIES = {"A": "Lyon", "B": "Paris", "C": "the Hague", "D": "Los Angeles"}


def outcome(prediction, gold, choices=None, verifier=PLAIN):
    options = {} if choices is None else {"choices": choices}
    return verifier.verify(prediction, gold, options).outcome


@pytest.mark.parametrize(
    "prediction",
    [
        "C",
        "(C)",
        "c",
        "**C**",
        "C.",
        r"So \boxed{C}.",
        r"\boxed{\text{(C)}}",
        r"\boxed{C. the Hague}",
        r"\boxed{\text{the Hague}}",
        "<answer>C</answer>",
        "<answer> C) the Hague </answer>",
        "#### C",
        "Answer: C",
        "**Answer:** C",
        "**Answer: C**",
        "Answer:\nC",
        "The answer is (C).",
        "The final answer is $C$.",
        "The correct option is C, the Hague.",
        "Thus the correct answer would be option C because A is too small.",
        "The answer to the question is: C",
        "I choose C.",
        "Option C is the correct answer.",
        "Option C is correct.",
        "The correct answer is C, and a wrong answer is B.",
        "A is too small. So C is correct!",
        "C is right.",
        "\uff23",
        "\u7b54\u6848\uff1aC",
        "Answer: \uff23",
        "Answer: C - the Hague",
        "Answer: [C]",
        "**C**\n\nIt has canals, as A does not.",
        "A has none, B has few.\n\n(C)",
        "The answer is the Hague.",
        "The Hague",
        "Answer: C, not B",
        "Answer: A\nWait, no.\nAnswer: C",
        "<think>The answer is A</think>The answer is C",
    ],
)
def test_a_stated_choice_is_read_in_every_usual_form(prediction):
    assert outcome(prediction, "C", CITIES) is Outcome.CORRECT
    assert outcome(prediction, "B", CITIES) is Outcome.WRONG


@pytest.mark.parametrize(
    "prediction",
    [
        "",
        "A quick look shows that C is an option and B another.",
        "I think a good city has canals.",
        "The answer is a city by the sea.",
        "The answer is A city by the sea.",
        "The answer is not B.",
        "The answer is d in this list.",
        "The answer is Berlin.",
        r"\boxed{}",
        r"\boxed{Berlin}",
        "Answer: None of these",
        "<think>The answer is B",
        "Neither A nor B is the correct answer.",
        "B-tree",
        "Answer: B-tree",
        "Answer: Bonn",
        "Statement B is correct.",
        "B is correct about the weather.",
        "It asks whether B is correct.",
    ],
)
def test_no_letter_comes_out_of_prose(prediction):
    assert outcome(prediction, "B", CITIES) is Outcome.NO_ANSWER


@pytest.mark.parametrize(
    "prediction",
    [
        "A\nB\nC\nD\nNone fits.",
        "Answer: A or B",
        "Answer: A or maybe B",
        "Answer: <A|B|C|D>",
        r"\boxed{A, B}",
        "Answer: B and C",
        "Answer: B) Lyon",
    ],
)
def test_several_different_choices_are_wrong_whichever_is_gold(prediction):
    for gold in "ABCD":
        found = PLAIN.verify(prediction, gold, {"choices": CITIES})
        assert found.outcome is Outcome.WRONG
        assert "several choices" in found.rule


def test_a_letter_that_is_no_label_supersedes_an_earlier_answer():
    found = PLAIN.verify("The answer is B.\nAnswer: E", "B", {})
    assert (found.outcome, found.extracted) == (Outcome.WRONG, "E")
    assert outcome("The answer is B.\nThe answer is clear.", "B") is Outcome.CORRECT


def test_the_same_choice_twice_is_that_choice():
    assert outcome("Answer: B/B", "B") is Outcome.CORRECT


@pytest.mark.parametrize(
    "choices",
    [
        ["Lyon", "Paris", "the Hague"],
        {"A": "Lyon", "B": "Paris", "C": "the Hague"},
        {"label": ["A", "B", "C"], "text": ["Lyon", "Paris", "the Hague"]},
    ],
)
@pytest.mark.parametrize("gold", ["B", "(B)", "Paris", "paris."])
def test_choices_and_gold_may_be_given_in_any_shape(choices, gold):
    assert outcome("Answer: B", gold, choices) is Outcome.CORRECT
    assert outcome("Answer: Paris", gold, choices) is Outcome.CORRECT
    assert outcome("Answer: Lyon", gold, choices) is Outcome.WRONG


def test_choices_that_differ_only_in_brackets_or_sign_are_told_apart():
    choices = ["(1, 2)", "[1, 2]", "-5", "5"]
    for label, text in zip("ABCD", choices, strict=True):
        assert outcome(f"Answer: {text}", label, choices) is Outcome.CORRECT
        assert outcome(f"{label}. {text}", label, choices) is Outcome.CORRECT


def test_an_index_counts_the_choices_from_zero():
    by_index = MultipleChoice(ChoiceVerifier(gold="index"))
    assert outcome("Answer: B", "1", ["3", "1", "2"], by_index) is Outcome.CORRECT
    assert outcome("Answer: 1", "1", ["3", "1", "2"], by_index) is Outcome.CORRECT
    for bad in ("3", "-1", "B"):
        with pytest.raises(ValueError, match="index"):
            outcome("Answer: B", bad, ["3", "1", "2"], by_index)


def test_a_number_that_starts_with_a_label_is_not_that_label():
    numbered = {"1": "red", "2": "green"}
    assert outcome("Answer: 1", "1", numbered) is Outcome.CORRECT
    for other in ("12", "1.5", "1,000"):
        assert outcome(f"Answer: {other}", "1", numbered) is Outcome.NO_ANSWER


@pytest.mark.parametrize(
    ("gold", "choices"),
    [("E", None), ("B", []), ("B", ["only"]), ("Rome", CITIES), ("A", list("abcdefgh" * 2))],
)
def test_unusable_choices_or_gold_are_errors_even_for_an_empty_completion(gold, choices):
    with pytest.raises(ValueError, match=r"choices|labels"):
        outcome("", gold, choices)


@given(st.text(st.sampled_from("ABCDabcd ().:,\n*$\\{}answer is<>/|"), max_size=60))
def test_at_most_one_gold_is_correct_and_nothing_raises(prediction):
    correct = [g for g in "ABCD" if outcome(prediction, g, CITIES) is Outcome.CORRECT]
    assert len(correct) <= 1


CASES = Path(__file__).parents[4] / "shared" / "cases" / "verifier_cases.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the labelled cases are not there")
def test_labelled_hard_cases_are_judged_as_labelled():
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    rows = [row for row in rows if row["kind"] == "mcq" and row["firm"]]
    wrong = [
        row["id"]
        for row in rows
        if (outcome(row["prediction"], row["gold"], row["options"]) is Outcome.CORRECT)
        != row["expected"]
    ]
    assert len(wrong) <= 0.05 * len(rows), wrong
