import json
import time
from pathlib import Path

import pytest

from rlvr_platform.config.verifiers_math import MathVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.answer_marks import boxed
from rlvr_platform.verifiers.math import MathEquivalence

CASES = Path(__file__).parents[4] / "shared" / "cases"


@pytest.fixture(scope="module")
def verifier():
    return MathEquivalence()


@pytest.mark.parametrize(
    ("prediction", "gold"),
    [
        (r"\boxed{\frac{2}{4}}", r"\frac{1}{2}"),
        (r"Thus $\boxed{0.5}$.", r"\frac12"),
        (r"\boxed{5.}", "5"),
        (r"\boxed{1,000}", "1000"),
        (r"\boxed{x^2 - 1}", "(x-1)(x+1)"),
        (r"\boxed{\{3, 1, 2\}}", r"\{1,2,3\}"),
        (r"\boxed{\text{Evelyn}}", r"\text{Evelyn}"),
        (r"\boxed{\sqrt{8}}", r"2\sqrt{2}"),
        ("<answer>3/4</answer>", r"\frac{3}{4}"),
        (r"<answer>$\frac{3}{4}$</answer>", "0.75"),
        ("so 12 eggs\n#### 12", "12"),
        ("The answer is \\frac{1}{3}.", r"\frac13"),
        ("The answer is $1{,}000$ dollars.", "1000"),
        ("The answer is 5. There were 6 questions.", "5"),
        ("<<16-3=13>>13 eggs left\nA: 13", "13"),
        ("we get 18", "$18"),
        (r"\boxed{5}", r"\boxed{5}"),
    ],
)
def test_equal_mathematics_is_correct_in_every_form(verifier, prediction, gold):
    assert verifier.verify(prediction, gold, {}).outcome is Outcome.CORRECT


@pytest.mark.parametrize(
    ("prediction", "gold"),
    [
        (r"\boxed{42}, no: $\boxed{41}$", "42"),
        (r"<think>\boxed{42}</think> $\boxed{41}$", "42"),
        (r"\boxed{-42}", "42"),
        (r"\boxed{\text{Tuesday}}", r"\text{Monday}"),
        (r"\boxed{0^{-1}}", "1"),
        (r"\boxed{x + 1", r"x + 1"),
    ],
)
def test_other_mathematics_is_not_correct(verifier, prediction, gold):
    assert verifier.verify(prediction, gold, {}).outcome is not Outcome.CORRECT


@pytest.mark.parametrize("prediction", ["", "   ", "I do not know", r"\boxed{}", "<think>42"])
def test_a_completion_without_mathematics_has_no_answer(verifier, prediction):
    finding = verifier.verify(prediction, "42", {})
    assert (finding.outcome, finding.extracted) == (Outcome.NO_ANSWER, "")


def test_the_extracted_answer_is_what_was_read(verifier):
    assert verifier.verify(r"so \boxed{ 5. }", "5", {}).extracted == "5"
    assert verifier.verify("first 3 then 18 eggs", "5", {}).extracted == "18"


@pytest.mark.parametrize("gold", ["", "   ", "..."])
def test_gold_without_mathematics_is_refused(verifier, gold):
    with pytest.raises(ValueError, match="gold answer"):
        verifier.verify(r"\boxed{1}", gold, {})


@pytest.mark.parametrize(
    ("options", "prediction", "gold", "correct"),
    [
        ({}, r"\boxed{5\text{ m}}", r"5\text{ cm}", False),
        ({"units": "ignore"}, r"\boxed{5\text{ m}}", r"5\text{ cm}", True),
        ({}, r"\boxed{5}", r"5\text{ cm}", True),
        ({"units": "require"}, r"\boxed{5}", r"5\text{ cm}", False),
        ({}, r"\boxed{28}", r"28\%", True),
        ({"percent": "strict"}, r"\boxed{28}", r"28\%", False),
        ({"percent": "strict"}, r"\boxed{0.28}", r"28\%", True),
        ({}, r"\boxed{\frac{1}{7}}", "0.14", True),
        ({"rounding_decimals": 99}, r"\boxed{\frac{1}{7}}", "0.14", False),
        ({}, r"\boxed{\sum_{k=1}^{3} k}", "6", False),
        ({"unevaluated": "accept"}, r"\boxed{\sum_{k=1}^{3} k}", "6", True),
    ],
)
def test_a_policy_of_the_prompt_or_of_the_config_decides(options, prediction, gold, correct):
    by_prompt = MathEquivalence().verify(prediction, gold, options)
    by_config = MathEquivalence(MathVerifier(**options)).verify(prediction, gold, {})
    assert by_prompt == by_config
    assert (by_prompt.outcome is Outcome.CORRECT) == correct


GAPS = [" ", "\n", "\\,", ".", "1,", "\\pm ", "=1", "x+", "(", "{", "$", "\\", "1", "million "]


@pytest.mark.parametrize("gap", GAPS)
def test_a_long_answer_is_judged_in_linear_time(verifier, gap):
    started = time.process_time()
    for completion in (boxed("x" + gap * 10**5 + "1"), "The answer is " + gap * 10**5 + "1"):
        assert verifier.verify(completion, "42", {}).outcome is not Outcome.CORRECT
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("gap", GAPS)
def test_an_answer_just_short_enough_to_compare_costs_little(verifier, gap):
    started = time.process_time()
    long = (gap * 15_000)[:15_000]
    for completion in (boxed(long), f"<answer>{long}</answer>", f"The answer is 7{long[:4000]}."):
        verifier.verify(completion, "42", {})
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("inner", ["(1)", "[1]", r"\left(1\right)", "\\frac{1}{2}", "2^{1}"])
def test_deep_nesting_costs_little(verifier, inner):
    before, after = inner.split("1", 1)
    depth = 15_000 // len(inner)
    started = time.process_time()
    long = "1" + "+1" * 1000  # As much as is still taken apart at this depth.
    for text in (before * depth + "1" + after * depth, before * 600 + long + after * 600):
        verifier.verify(boxed(text), "42", {})
    verifier.verify(boxed("(1,2)" + "^{T}" * 3500), "42", {})
    assert time.process_time() - started < 2.0


def test_an_answer_may_be_as_long_as_a_long_gold_answer(verifier):
    numbers = list(map(str, range(5000)))
    gold, answer = (rf"\{{{', '.join(order)}\}}" for order in (numbers, numbers[::-1]))
    assert verifier.verify(boxed(answer), gold, {}).outcome is Outcome.CORRECT
    assert "too long" in verifier.verify(boxed(answer), "42", {}).rule


@pytest.mark.parametrize("name", ["gsm8k_labelled.jsonl", "math_labelled.jsonl"])
def test_labelled_model_outputs_are_judged_as_labelled(verifier, name):
    if not (CASES / name).exists():
        pytest.skip(f"{CASES / name} is not here")
    rows = [json.loads(line) for line in (CASES / name).read_text().splitlines()]
    agree = 0
    for row in rows:
        finding = verifier.verify(row["prediction"], row["gold"], {})
        agree += (finding.outcome is Outcome.CORRECT) == row["expected"]
    assert agree >= 0.998 * len(rows)


def test_a_comparison_that_math_verify_cannot_make_is_wrong_and_says_so(verifier, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("can't evaluate nan or zoo")

    monkeypatch.setattr("math_verify.verify", refuse)
    finding = verifier.verify(r"\boxed{\sum_{n=1}^{2} y}", r"\sum_{n=1}^{2} x", {})
    assert finding.outcome is Outcome.WRONG
    assert finding.rule == "box, math-verify cannot compare them"
