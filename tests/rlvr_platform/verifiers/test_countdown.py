from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.verifiers_more import CountdownVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.countdown import BadExpression, Countdown, evaluate

OPERATORS = frozenset("+-*/")


def verify(prediction, gold="24", numbers=(3, 3, 8, 8), **settings):
    verifier = Countdown(CountdownVerifier(**settings))
    return verifier.verify(prediction, gold, {"numbers": list(numbers)})


def outcome(*args, **kwargs):
    return verify(*args, **kwargs).outcome


trees = st.recursive(
    st.integers(0, 99).map(lambda n: (str(n), Fraction(n), [n])),
    lambda sub: st.tuples(sub, st.sampled_from("+-*/"), sub).map(
        lambda t: (
            f"({t[0][0]} {t[1]} {t[2][0]})",
            _apply(t[1], t[0][1], t[2][1]),
            t[0][2] + t[2][2],
        )
    ),
    max_leaves=8,
)


def _apply(symbol, a, b):
    if a is None or b is None or (symbol == "/" and b == 0):
        return None
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else None}[symbol]


@given(trees)
def test_every_expression_has_its_exact_value_and_its_numbers(tree):
    text, value, numbers = tree
    found = verify(f"<answer>{text}</answer>", str(value or 0), numbers)
    assert (found.outcome is Outcome.CORRECT) == (value is not None)
    if value is not None:
        assert verify(f"\\boxed{{{text}}}", str(value + Fraction(1, 10**9)), numbers).outcome is (
            Outcome.WRONG
        )


@pytest.mark.parametrize(
    "prediction",
    [
        "<answer>8/(3-8/3)</answer>",
        r"\boxed{8/(3-8/3)}",
        r"\boxed{\frac{8}{3 - \frac{8}{3}}}",
        r"\boxed{8 \div \left(3 - 8 \div 3\right)}",
        "8 \u00f7 (3 \u2212 8 \u00f7 3)",
        "8/(3-8/3) = 24",
        "The answer is: 8/(3-8/3).",
        "I try.\n8/(3-8/3)",
    ],
)
def test_usual_ways_to_write_an_expression_are_read(prediction):
    assert outcome(prediction) is Outcome.CORRECT


@pytest.mark.parametrize(
    ("prediction", "reason"),
    [
        ("24", "not given"),
        ("3*8", "not used"),
        ("3*8*8/8", "not given"),
        ("38-8-3-3", "not given"),
        ("8/(3-8/3) = 25", "sides"),
        ("24 = 24 = 24", "not given"),
        ("(3+3)*8/(8-8)", "division by zero"),
        ("3**3-8+8", "operator"),
        ("8//3+3+8", "operator"),
        ("8 % 3", "operator"),
        ("8(3)", "something other"),
        ("__import__('os').system('true') or 8", "something other"),
        ("int('24')", "something other"),
        ("[8 for x in 3]", "something other"),
        ("0x18", "not a plain number"),
        ("2_4", "not a plain number"),
        ("24j", "not a plain number"),
        ("8 +", "not an arithmetic expression"),
        ("1+" * 600 + "1", "longer"),
        ("(" * 400 + "1" + ")" * 400, "not an arithmetic expression"),
        ("-" * 900 + "1", ""),
    ],
)
def test_what_is_no_solution_is_wrong_with_the_reason(prediction, reason):
    found = verify(f"<answer>{prediction}</answer>")
    assert found.outcome is Outcome.WRONG
    assert reason in found.rule


def test_numbers_may_be_left_out_only_when_the_settings_say_so():
    assert outcome("3*8", use="at_most_once") is Outcome.CORRECT
    assert outcome("8*3*1", use="at_most_once") is Outcome.WRONG
    assert outcome("12*2", use="any_numbers") is Outcome.CORRECT
    assert outcome("12*2.1", use="any_numbers") is Outcome.WRONG


def test_decimals_are_exact():
    assert outcome("0.1+0.2", gold="0.3", use="any_numbers") is Outcome.CORRECT
    assert outcome("0.1+0.20000000000000001", gold="0.3", use="any_numbers") is Outcome.WRONG


def test_powers_are_followed_when_allowed_and_never_explode():
    power = {"use": "any_numbers", "operators": ("**", "*", "-")}
    assert outcome("2**3*3", **power) is Outcome.CORRECT
    assert outcome("2^3*3", **power) is Outcome.CORRECT
    for bomb in ("9**9**9**9", "2**0.5", "(2**4000)*(2**4000)", "0**-1"):
        assert outcome(bomb, **power) is Outcome.WRONG


def test_values_are_bounded_in_size():
    with pytest.raises(BadExpression, match="a value that is too large"):
        evaluate("2**2000*2**2000*2**2000", frozenset({"*", "**"}))
    with pytest.raises(BadExpression, match="longer"):
        evaluate("9" * 1001, OPERATORS)


def test_a_sign_needs_the_minus_to_be_allowed():
    assert outcome("-3+27", use="any_numbers", operators=("+",)) is Outcome.WRONG
    assert outcome("-3+27", use="any_numbers", operators=("+", "-")) is Outcome.CORRECT


def test_given_numbers_may_be_negative():
    assert outcome("-3+27", numbers=(-3, 27)) is Outcome.CORRECT


@pytest.mark.parametrize("prediction", ["", "no idea", "<answer></answer>"])
def test_without_an_expression_there_is_no_answer(prediction):
    assert outcome(prediction) is Outcome.NO_ANSWER


@pytest.mark.parametrize("options", [{}, {"numbers": []}, {"numbers": "3 3"}, {"numbers": ["x"]}])
def test_missing_numbers_are_errors_even_for_an_empty_completion(options):
    with pytest.raises(ValueError, match=r"numbers|number"):
        Countdown(CountdownVerifier()).verify("", "24", options)


@given(st.text(max_size=50))
def test_no_text_raises(text):
    assert outcome(text, use="any_numbers") in (
        Outcome.CORRECT,
        Outcome.WRONG,
        Outcome.NO_ANSWER,
    )


def test_an_evaluated_expression_tells_its_numbers():
    assert sorted(evaluate("3 + 3*4", OPERATORS).numbers.elements()) == [3, 3, 4]
