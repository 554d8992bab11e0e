import subprocess
import sys
import typing

import pytest

from rlvr_platform.config.verifier import AnyVerifier, ExactVerifier, VerifierConfig
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import build_verifier, reward_of


@pytest.mark.parametrize("section", typing.get_args(typing.get_args(AnyVerifier)[0]))
def test_every_configured_kind_builds_a_verifier_that_knows_right_from_wrong(section):
    verifier = build_verifier(section())
    assert verifier.verify("41", "41", {}).outcome is Outcome.CORRECT
    assert verifier.verify("41", "42", {}).outcome is Outcome.WRONG
    assert verifier.verify("", "42", {}).outcome is Outcome.NO_ANSWER


def test_timeout_and_error_carry_no_reward():
    config = VerifierConfig(use=ExactVerifier(), reward_correct=3.0, reward_wrong=-2.0)
    rewards = [reward_of(outcome, config) for outcome in Outcome]
    assert rewards == [3.0, -2.0, -2.0, None, None]


def test_the_pool_and_the_exact_verifier_load_without_torch_and_math_verify():
    program = (
        "import sys; import rlvr_platform.verifiers.pool, rlvr_platform.verifiers.gold;"
        "from rlvr_platform.verifiers.base import build_verifier;"
        "from rlvr_platform.config.verifier import ExactVerifier;"
        "build_verifier(ExactVerifier());"
        "print({'torch', 'sympy', 'math_verify', 'ray'} & set(sys.modules))"
    )
    path = ":".join(sys.path)
    output = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True
    )
    assert output.stdout.strip() == "set()", output.stderr
