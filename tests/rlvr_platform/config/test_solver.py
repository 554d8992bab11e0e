import json

import pytest
from pydantic import TypeAdapter, ValidationError

from rlvr_platform.config.solver import AnySolver, CvxpySolver, GreedySolver, SourceShare


def read(tree):
    return TypeAdapter(AnySolver).validate_json(json.dumps(tree))


def test_the_kind_chooses_the_section():
    share = {"kind": "source_share", "source": "gsm8k", "minimum": 0.2}
    solver = read({"kind": "cvxpy", "constraints": [share, {"kind": "token_budget", "tokens": 9}]})
    assert isinstance(read({"kind": "greedy"}), GreedySolver)
    assert isinstance(solver, CvxpySolver)
    assert solver.constraints[0] == SourceShare(source="gsm8k", minimum=0.2)
    assert solver.constraints[1].tokens == 9


@pytest.mark.parametrize(
    "constraint",
    [
        {"kind": "source_share", "source": "a", "minimum": 0.6, "maximum": 0.5},
        {"kind": "source_share", "source": "a", "maximum": 1.1},
        {"kind": "source_share", "source": ""},
        {"kind": "source_share"},
        {"kind": "token_budget", "tokens": 0},
        {"kind": "token_budget", "tokens": float("nan")},
        {"kind": "token_budgets", "tokens": 1},
    ],
)
def test_a_constraint_that_makes_no_sense_is_refused(constraint):
    with pytest.raises(ValidationError):
        read({"kind": "cvxpy", "constraints": [constraint]})


def test_constraints_need_cvxpy():
    with pytest.raises(ValidationError, match="constraints"):
        read({"kind": "closed_form", "constraints": []})
