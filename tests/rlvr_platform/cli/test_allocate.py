import argparse
import io
import json
import sys

import numpy as np
import pytest

from rlvr_platform.cli import allocate
from rlvr_platform.errors import ConfigError, InputError

EXAMPLE = {
    "p": [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98],
    "budget": 56,
    "min": 4,
    "max": 16,
    "objective": "dr_grpo",
}


def run(monkeypatch, text):
    parser = argparse.ArgumentParser(prog="rlvr")
    allocate.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["allocate", "-"])
    data = text if isinstance(text, bytes) else json.dumps(text).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return args.run(args)


@pytest.mark.parametrize("solver", [None, "closed_form", "greedy", "cvxpy"])
@pytest.mark.parametrize("objective", ["dr_grpo", "rloo"])
def test_the_worked_example(monkeypatch, capfd, solver, objective):
    request = {**EXAMPLE, "objective": objective, **({"solver": solver} if solver else {})}
    assert run(monkeypatch, request) == 0
    out, err = capfd.readouterr()
    answer = json.loads(out)
    n, p = np.array(answer["n"]), np.array(EXAMPLE["p"])
    shape = (n - 1) / n**2 if objective == "dr_grpo" else 1 / (n - 1)
    assert err == ""
    assert set(answer) == {"n", "objective_value", "seconds"}
    assert answer["n"] == [4, 7, 11, 12, 11, 7, 4]
    assert answer["objective_value"] == pytest.approx((p * (1 - p) * shape).sum())
    assert 0 < answer["seconds"] < 60


@pytest.mark.parametrize(("objective", "least"), [("grpo_std", 3), ("mixed_prob", 1)])
def test_the_derived_objectives_report_their_own_value(monkeypatch, capsys, objective, least):
    assert run(monkeypatch, {**EXAMPLE, "objective": objective, "min": least}) == 0
    answer = json.loads(capsys.readouterr().out)
    n, p = np.array(answer["n"]), np.array(EXAMPLE["p"])
    mixed = 1 - p**n - (1 - p) ** n
    expected = (mixed / n).sum() if objective == "grpo_std" else mixed.sum()
    assert n.sum() == 56
    assert answer["objective_value"] == pytest.approx(expected)


def test_a_file_reads_like_standard_input(tmp_path, capsys):
    file = tmp_path / "request.json"
    file.write_text(json.dumps(EXAMPLE))
    assert allocate.run(argparse.Namespace(file=str(file))) == 0
    assert json.loads(capsys.readouterr().out)["n"] == [4, 7, 11, 12, 11, 7, 4]


def without(key):
    return {name: value for name, value in EXAMPLE.items() if name != key}


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (b"", InputError, "JSON"),
        (b"{not json", InputError, "JSON"),
        (b'{"p": "\xff"}', InputError, "request"),
        (b"[" * 100_000, InputError, "JSON"),
        ([1, 2], InputError, "object"),
        (without("p"), InputError, "p: Field required"),
        (without("budget"), InputError, "budget: Field required"),
        ({**EXAMPLE, "budgets": 1}, InputError, "budgets"),
        ({**EXAMPLE, "p": 0.5}, InputError, "p: "),
        ({**EXAMPLE, "p": []}, InputError, "no prompts"),
        ({**EXAMPLE, "p": [0.5, "0.5"]}, InputError, r"p\.1"),
        ({**EXAMPLE, "p": [True]}, InputError, r"p\.0"),
        ({**EXAMPLE, "p": [None]}, InputError, r"p\.0"),
        ({**EXAMPLE, "p": [0.5, float("nan")]}, InputError, r"p\.1.*finite"),
        ({**EXAMPLE, "p": [0.5, 1.5]}, InputError, r"1\.5 at prompt 1"),
        ({**EXAMPLE, "p": [-0.1, 0.5]}, InputError, r"-0\.1 at prompt 0"),
        ({**EXAMPLE, "budget": 56.0}, InputError, "budget"),
        ({**EXAMPLE, "budget": True}, InputError, "budget"),
        ({**EXAMPLE, "max": 10**30}, InputError, "max"),
        ({**EXAMPLE, "objective": "rlo"}, InputError, "rloo"),
        ({**EXAMPLE, "solver": "slsqp"}, InputError, "closed_form"),
        ({**EXAMPLE, "p": ["a"] * 9}, InputError, "and 6 more"),
        ({**EXAMPLE, "budget": 27}, ConfigError, "from 28 to 112"),
        ({**EXAMPLE, "budget": -(10**6)}, ConfigError, "from 28 to 112"),
        ({**EXAMPLE, "solver": "cvxpy", "budget": 113}, ConfigError, "from 28 to 112"),
        ({**EXAMPLE, "min": 17}, ConfigError, "minimum of 17 and a maximum of 16"),
        ({**EXAMPLE, "min": 2}, ConfigError, "at least 3"),
    ],
)
def test_a_bad_request_is_one_message_and_no_output(monkeypatch, capsys, request_, error, message):
    with pytest.raises(error, match=message) as refused:
        run(monkeypatch, request_)
    assert refused.value.exit_code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path, name):
    with pytest.raises(InputError, match="cannot read"):
        allocate.run(argparse.Namespace(file=str(tmp_path / name)))
