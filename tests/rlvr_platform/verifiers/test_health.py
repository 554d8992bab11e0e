import pytest

from rlvr_platform.config.verifier import PoolConfig
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import Outcome, Verdict
from rlvr_platform.verifiers.health import require_verdicts


def verdicts(*outcomes: Outcome) -> list[Verdict]:
    return [Verdict(o, None, "", f"rule {o}", 0.0) for o in outcomes]


WRONG, TIMEOUT, ERROR = Outcome.WRONG, Outcome.TIMEOUT, Outcome.ERROR


def test_exactly_the_allowed_share_passes_and_one_more_does_not() -> None:
    pool = PoolConfig(max_invalid_fraction=0.5)
    require_verdicts(verdicts(WRONG, WRONG, TIMEOUT, ERROR), pool, "here")
    with pytest.raises(VerifierError, match="3 of 4 rollouts of step 4"):
        require_verdicts(verdicts(WRONG, ERROR, TIMEOUT, ERROR), pool, "step 4")


def test_the_message_names_the_reasons_most_frequent_first() -> None:
    with pytest.raises(VerifierError, match=r"error: rule error \(2x\); timeout: rule timeout"):
        require_verdicts(
            verdicts(TIMEOUT, ERROR, ERROR), PoolConfig(max_invalid_fraction=0.0), "here"
        )


def test_wrong_answers_are_verdicts() -> None:
    pool = PoolConfig(max_invalid_fraction=0.0)
    require_verdicts(verdicts(WRONG, Outcome.NO_ANSWER), pool, "here")
