import argparse
import io
import json
from types import SimpleNamespace

import numpy as np
import pytest

from rlvr_platform.algorithms.downsampling import downsample, subset_variance
from rlvr_platform.cli import downsample as command
from rlvr_platform.errors import InputError

REWARDS = [[0, 1, 0, 0.5, 1, 0], [1, 1, 1, 1], [0.25]]


def parse(*arguments):
    parser = argparse.ArgumentParser(prog="rlvr")
    command.add_parser(parser.add_subparsers(required=True))
    return parser.parse_args(["downsample", *map(str, arguments)])


def run(capsys, name):
    args = parse(name)
    assert args.run(args) == 0
    return json.loads(capsys.readouterr().out)


def refuse(text):
    with pytest.raises(InputError) as caught:
        command.parse_request(text if isinstance(text, bytes) else json.dumps(text).encode())
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize("rule", ["max_variance", "random", "max_reward", "percentile"])
@pytest.mark.parametrize("seed", [0, 3])
def test_prints_what_the_rule_keeps_and_its_variance(tmp_path, capsys, rule, seed):
    file = tmp_path / "in.json"
    file.write_text(json.dumps({"rewards": REWARDS, "m": 2, "rule": rule, "seed": seed}))
    groups = [np.array(group, float) for group in REWARDS]
    kept = downsample(groups, 2, rule, seed, np.arange(3))
    assert run(capsys, file) == {
        "kept": [indices.tolist() for indices in kept],
        "variance": [subset_variance(g, k) for g, k in zip(groups, kept, strict=True)],
    }


def test_reads_standard_input_and_defaults_to_max_variance_with_seed_0(capsys, monkeypatch):
    full = {"rewards": REWARDS, "m": 3, "rule": "max_variance", "seed": 0}
    results = []
    for document in (full, {"rewards": REWARDS, "m": 3}):
        stdin = SimpleNamespace(buffer=io.BytesIO(json.dumps(document).encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        results.append(run(capsys, "-"))
    assert results[0] == results[1]
    assert results[0]["variance"][1:] == [0.0, 0.0]


def test_no_groups_give_no_choices(tmp_path, capsys):
    file = tmp_path / "in.json"
    file.write_text('{"rewards": [], "m": 2}')
    assert run(capsys, file) == {"kept": [], "variance": []}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"m": 2, "m": 3, "rewards": []}', "the key m stands twice"),
        (b"[]", "JSON list"),
        (b"null", "JSON NoneType"),
        (b'{"m": 2}', "rewards missing"),
        (b'{"rewards": []}', "m missing"),
        (b"{}", "rewards and m missing"),
        (b'{"rewards": [], "m": 2, "keep": 4}', "unknown key keep"),
    ],
)
def test_what_is_no_request_is_refused(text, said):
    assert said in refuse(text)


@pytest.mark.parametrize("m", [1, 0, -2, 2.0, "2", None, True, [2], 2**63, float("nan")])
def test_m_must_be_an_integer_of_two_or_more(m):
    message = refuse({"rewards": REWARDS, "m": m})
    assert f"m is {json.dumps(m)}" in message
    assert "from 2 up" in message


@pytest.mark.parametrize("seed", [-1, 0.5, "0", None, False, 2**63])
def test_seed_must_be_an_integer_of_zero_or_more(seed):
    message = refuse({"rewards": REWARDS, "m": 2, "seed": seed})
    assert f"seed is {json.dumps(seed)}" in message


@pytest.mark.parametrize("rule", ["max", "", None, 3, ["random"], "MAX_VARIANCE"])
def test_an_unknown_rule_is_refused_with_those_known(rule):
    message = refuse({"rewards": REWARDS, "m": 2, "rule": rule})
    assert "max_variance, random, max_reward, percentile" in message


@pytest.mark.parametrize("rewards", [None, 1, "01", {"0": [1]}])
def test_rewards_must_be_a_list_of_groups(rewards):
    assert "wanted: a list of groups" in refuse({"rewards": rewards, "m": 2})


@pytest.mark.parametrize("group", [None, 1, "01", {"0": 1}])
def test_a_group_that_is_no_list_is_named(group):
    assert "group 1, is" in refuse({"rewards": [[0, 1], group], "m": 2})


def test_an_empty_group_is_named():
    assert "group 2, is empty" in refuse({"rewards": [[0], [1], []], "m": 2})


NOT_A_NUMBER = ["NaN", "Infinity", "-Infinity", "null", "true", '"1"', "[1]", "{}"]
TOO_LARGE = ["1e999", "1e200", "1" + "0" * 400]


@pytest.mark.parametrize("reward", NOT_A_NUMBER + TOO_LARGE)
def test_a_reward_that_is_no_finite_number_is_named_by_group_and_position(reward):
    text = f'{{"rewards": [[0, 1], [0, 1, 0, {reward}]], "m": 2}}'
    message = refuse(text.encode())
    assert "group 1, position 3, is" in message
    assert "verdict" in message


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for name in (tmp_path / "none.json", tmp_path):
        args = parse(name)
        with pytest.raises(InputError, match=f"cannot read {name}"):
            args.run(args)
