import json
from pathlib import Path

import numpy as np
import pytest

from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_math import MathVerifier, NumericVerifier
from rlvr_platform.config.verifiers_more import ExactVerifier, FunctionVerifier, RegexVerifier
from rlvr_platform.errors import InputError
from rlvr_platform.types import Prompt
from rlvr_platform.verifiers.gold import check_gold
from rlvr_platform.verifiers.pool import VerifierPool

DATA = Path(__file__).parents[4] / "shared" / "data"


def prompts(golds):
    tokens = np.zeros(1, np.int32)
    return [Prompt(10 + i, "?", tokens, gold, "tasks") for i, gold in enumerate(golds)]


@pytest.mark.parametrize(
    ("use", "golds", "bad"),
    [
        (NumericVerifier(), ["5", "-1,000.5", "$3", "1/4", "five", "", "1/0"], [14, 15, 16]),
        (ExactVerifier(), ["yes", " no ", "", " "], [12, 13]),
        (MathVerifier(), ["5", r"\frac12", "", r"\frac{1", r"\text{no}", "}"], [12, 13, 15]),
    ],
)
def test_gold_that_cannot_verify_against_itself_is_listed_with_its_place(use, golds, bad):
    with VerifierPool(VerifierConfig(use=use)) as pool:
        found = check_gold(prompts(golds), pool)
    assert [entry.index for entry in found] == bad
    for entry in found:
        assert entry.source == "tasks"
        assert entry.gold == golds[entry.index - 10]
        assert entry.reason


def test_a_verifier_that_never_answers_is_given_up_after_a_few_gold_answers(tmp_path):
    (tmp_path / "slow.py").write_text("import time\ndef judge(*_): time.sleep(60)\n")
    use = FunctionVerifier(path=f"{tmp_path}/slow.py:judge")
    with (
        VerifierPool(VerifierConfig(use=use, pool=PoolConfig(workers=4, deadline_s=0.2))) as pool,
        pytest.raises(InputError, match=r"none of the first 16 gold answers gets a verdict"),
    ):
        check_gold(prompts(["1"] * 5000), pool)


def test_gold_answers_of_a_real_data_set_verify_against_themselves():
    if not (DATA / "math500.jsonl").exists():
        pytest.skip(f"{DATA / 'math500.jsonl'} is not here")
    rows = [json.loads(line) for line in (DATA / "math500.jsonl").read_text().splitlines()]
    with VerifierPool(VerifierConfig(use=MathVerifier())) as pool:
        assert check_gold(prompts([row["answer"] for row in rows]), pool) == []


def test_a_gold_text_that_is_no_answer_must_be_readable_not_correct():
    """A pattern does not match itself, and one that is no pattern matches nothing."""
    with VerifierPool(VerifierConfig(use=RegexVerifier())) as pool:
        bad = check_gold(prompts([r"^\d+$", "("]), pool)
    assert [entry.index for entry in bad] == [11]
    assert "error" in bad[0].reason
