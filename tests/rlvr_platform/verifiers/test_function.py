from pathlib import Path

import numpy as np
import pytest

from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier, FunctionVerifier
from rlvr_platform.errors import ConfigError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.base import Finding
from rlvr_platform.verifiers.function import UserFunction
from rlvr_platform.verifiers.pool import GradeItem, VerifierPool

HERE = Path(__file__).parent
CORRECT = [Outcome.CORRECT] * 10


@pytest.fixture(autouse=True, scope="module")
def importable():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        yield


@pytest.fixture(scope="module")
def pool(importable):
    config = VerifierConfig(
        use=ExactVerifier(), pool=PoolConfig(workers=2, deadline_s=2), reward_correct=2.0
    )
    with VerifierPool(config, factory="hostile_functions:build") as pool:
        yield pool


def amid_healthy(pool, action, **options):
    """Its verdict, after those of the healthy items around it were found to be right."""
    healthy = [GradeItem(str(i), str(i)) for i in range(10)]
    verdicts = pool.grade([*healthy, GradeItem(action, "gold", options), *healthy])
    assert [v.outcome for v in verdicts[:10]] == CORRECT
    assert [v.outcome for v in verdicts[11:]] == CORRECT
    return verdicts[10]


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        ("raise", "KeyError"),
        ("exit", "exited with status 0, twice"),
        ("sys.exit", "SystemExit"),
        ("abort", "SIGABRT"),
        ("NaN", "returned float nan"),
        ("numpy NaN", "wanted True, False, a number from 0 to 1"),
        ("infinite", "returned float inf"),
        ("too large", "returned float 1.5"),
        ("negative", "returned float -0.1"),
        ("None", "returned NoneType None"),
        ("text", "returned str of length 4"),
        ("list", "returned list of length 3"),
        ("array", "returned ndarray"),
        ("complex", "returned complex"),
        ("unprintable", "cannot be shown"),
        ("bad finding", "the score is nan"),
    ],
)
def test_whatever_the_function_does_wrong_is_an_error_and_hurts_no_other_item(pool, action, reason):
    verdict = amid_healthy(pool, action)
    assert (verdict.outcome, verdict.reward) == (Outcome.ERROR, None)
    assert reason in verdict.rule


@pytest.mark.parametrize("action", ["print", "fork and return", "fork and raise", "thread"])
def test_printing_forking_and_threads_change_no_verdict(pool, action):
    for _ in range(3):
        assert amid_healthy(pool, action).outcome is Outcome.CORRECT


def test_a_function_that_hangs_is_a_timeout(pool):
    assert amid_healthy(pool, "hang").outcome is Outcome.TIMEOUT


def test_a_forked_child_ends_with_the_pool(tmp_path):
    pids = tmp_path / "pids"
    with VerifierPool(VerifierConfig(use=ExactVerifier()), "hostile_functions:build") as pool:
        assert amid_healthy(pool, "fork and stay", pids=str(pids)).outcome is Outcome.CORRECT
    stat = Path(f"/proc/{pids.read_text().strip()}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("action", ["numpy score", "numpy finding"])
def test_a_score_is_paid_as_a_share_of_the_reward(pool, action):
    verdict = amid_healthy(pool, action)
    assert (verdict.outcome, verdict.reward) == (Outcome.WRONG, 1.0)


@pytest.mark.parametrize(
    ("result", "finding"),
    [
        (True, (Outcome.CORRECT, None)),
        (np.bool_(False), (Outcome.WRONG, None)),
        (1, (Outcome.CORRECT, 1.0)),
        (0.25, (Outcome.WRONG, 0.25)),
        (Finding(Outcome.NO_ANSWER, "", "mine"), (Outcome.NO_ANSWER, None)),
    ],
)
def test_the_function_may_return_a_bool_a_share_or_a_finding(result, finding, tmp_path):
    (tmp_path / "mine.py").write_text("def judge(prediction, gold, options): return options['r']")
    verifier = UserFunction(FunctionVerifier(path=f"{tmp_path / 'mine.py'}:judge"))
    found = verifier.verify("a", "b", {"r": result})
    assert (found.outcome, found.score) == finding


def test_what_the_function_does_to_its_options_stays_with_it(tmp_path):
    code = "def judge(prediction, gold, options): return options.clear() is None"
    (tmp_path / "mine.py").write_text(code)
    options = {"a": 1}
    UserFunction(FunctionVerifier(path=f"{tmp_path / 'mine.py'}:judge")).verify("", "", options)
    assert options == {"a": 1}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no_such_module:judge", "cannot be imported"),
        ("no/such/file.py:judge", "there is no file"),
        ("hostile_functions:none_such", "no function 'none_such'"),
        ("hostile_functions:NOT_CALLABLE", "no function"),
        ("hostile_functions:of_two", "cannot be called with"),
    ],
)
def test_a_path_that_leads_to_no_function_is_refused_at_the_start(path, reason):
    with pytest.raises(ConfigError, match=reason):
        UserFunction(FunctionVerifier(path=path))


@pytest.mark.parametrize("path", ["", "module", "module:", ":function", "a:b:c"])
def test_a_path_of_the_wrong_form_is_no_configuration(path):
    with pytest.raises(ValueError, match="path"):
        FunctionVerifier(path=path)
