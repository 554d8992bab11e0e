import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.config.verifiers_math import MathVerifier, NumericVerifier
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding, reward_of
from rlvr_platform.verifiers.registry import build_verifier


@pytest.mark.parametrize("section", [MathVerifier, NumericVerifier, ExactVerifier])
def test_every_kind_of_answer_has_a_verifier_that_knows_right_from_wrong(section):
    verifier = build_verifier(section())
    assert verifier.verify("41", "41", {}).outcome is Outcome.CORRECT
    assert verifier.verify("41", "42", {}).outcome is Outcome.WRONG
    assert verifier.verify("", "42", {}).outcome is Outcome.NO_ANSWER


def test_timeout_and_error_carry_no_reward():
    config = VerifierConfig(use=ExactVerifier(), reward_correct=3.0, reward_wrong=-2.0)
    rewards = [reward_of(outcome, config) for outcome in Outcome]
    assert rewards == [3.0, -2.0, -2.0, None, None]


@given(st.floats(0, 1), st.floats(-10, 10), st.floats(-10, 10))
def test_a_score_pays_a_share_of_the_way_from_wrong_to_correct(score, wrong, correct):
    config = VerifierConfig(use=ExactVerifier(), reward_correct=correct, reward_wrong=wrong)
    for outcome in (Outcome.CORRECT, Outcome.WRONG, Outcome.NO_ANSWER):
        reward = reward_of(outcome, config, score)
        assert reward == pytest.approx(wrong + score * (correct - wrong), abs=1e-9)
        assert reward_of(outcome, config, 0.0) == wrong
        assert reward_of(outcome, config, 1.0) == correct
    assert reward_of(Outcome.ERROR, config, score) is None
    assert reward_of(Outcome.TIMEOUT, config, score) is None


@pytest.mark.parametrize("score", [math.nan, math.inf, -0.01, 1.01, True, "1", [1], 1j, np.nan])
def test_a_score_that_is_no_share_cannot_be_a_finding(score):
    with pytest.raises(ValueError, match="wanted a number from 0 to 1"):
        Finding(Outcome.CORRECT, "", "", score)


def test_the_pool_and_the_exact_verifier_load_without_torch_and_math_verify():
    program = (
        "import sys; import rlvr_platform.verifiers.pool, rlvr_platform.verifiers.gold;"
        "from rlvr_platform.verifiers.registry import build_verifier;"
        "from rlvr_platform.config.verifiers_more import ExactVerifier;"
        "build_verifier(ExactVerifier());"
        "print({'torch', 'sympy', 'math_verify', 'ray'} & set(sys.modules))"
    )
    path = ":".join(sys.path)
    output = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert output.stdout.strip() == "set()", output.stderr
