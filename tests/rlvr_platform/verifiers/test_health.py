import pytest

from rlvr_platform.config.verifier import PoolConfig
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import GradedGroup, Outcome, Verdict
from rlvr_platform.verifiers.health import require_verdicts


def group(*outcomes: Outcome) -> GradedGroup:
    verdicts = tuple(Verdict(o, None, "", f"rule {o}", 0.0) for o in outcomes)
    return GradedGroup(None, verdicts, None)


WRONG, TIMEOUT, ERROR = Outcome.WRONG, Outcome.TIMEOUT, Outcome.ERROR


def test_exactly_the_allowed_share_passes_and_one_more_does_not() -> None:
    pool = PoolConfig(max_invalid_fraction=0.5)
    require_verdicts([group(WRONG, WRONG), group(TIMEOUT, ERROR)], pool)
    with pytest.raises(VerifierError, match="3 of 4 rollouts"):
        require_verdicts([group(WRONG, ERROR), group(TIMEOUT, ERROR)], pool)


def test_the_message_names_the_reasons_most_frequent_first() -> None:
    with pytest.raises(VerifierError, match=r"error: rule error \(2x\); timeout: rule timeout"):
        require_verdicts([group(TIMEOUT, ERROR, ERROR)], PoolConfig(max_invalid_fraction=0.0))


def test_wrong_answers_are_verdicts() -> None:
    require_verdicts([group(WRONG, Outcome.NO_ANSWER)], PoolConfig(max_invalid_fraction=0.0))
