import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_platform.cli import grade
from rlvr_platform.errors import ConfigError, InputError

ROOT = Path(__file__).parents[3]


def parse(*arguments):
    parser = argparse.ArgumentParser(prog="rlvr")
    grade.add_parser(parser.add_subparsers(required=True))
    return parser.parse_args(["grade", *map(str, arguments)])


def write(path, records):
    lines = [r if isinstance(r, bytes) else json.dumps(r).encode() for r in records]
    path.write_bytes(b"\n".join(lines))
    return path


def case(identity, prediction, gold="42", **more):
    return {"id": identity, "prediction": prediction, "gold": gold, **more}


def run(capsys, *arguments):
    args = parse(*arguments)
    code = args.run(args)
    captured = capsys.readouterr()
    return code, [json.loads(line) for line in captured.out.splitlines()], captured.err


def test_every_line_gets_its_verdict_in_input_order(tmp_path, capsys):
    completions = [r"\boxed{42}", r"\boxed{41}", "", r"\boxed{99999999!}", "<answer>42</answer>"]
    file = write(tmp_path / "in.jsonl", [case(i, text) for i, text in enumerate(completions)])
    code, lines, errors = run(capsys, file, "--verifier", "math", "--deadline", "0.5")
    assert (code, errors) == (0, "")
    assert [line["id"] for line in lines] == list(range(5))
    outcomes = ["correct", "wrong", "no_answer", "timeout", "correct"]
    assert [line["verdict"] for line in lines] == outcomes
    assert [line["reward"] for line in lines] == [1.0, 0.0, 0.0, None, 1.0]
    assert [line["extracted"] for line in lines] == ["42", "41", "", "", "42"]
    assert all(set(line) == {"id", "verdict", "reward", "extracted", "seconds"} for line in lines)


@pytest.mark.parametrize(("verifier", "outcome"), [("numeric", "correct"), ("exact", "wrong")])
def test_the_named_verifier_judges(tmp_path, capsys, verifier, outcome):
    file = write(tmp_path / "in.jsonl", [case("a", "it is 42.0", options={"unit": "m"})])
    assert run(capsys, file, "--verifier", verifier)[1][0]["verdict"] == outcome


def test_malformed_lines_are_reported_by_number_and_the_rest_is_graded(tmp_path, capsys):
    records = [
        case("first", "42"),
        b"{not json",
        b"[1, 2]",
        b"",
        {"id": 5, "prediction": "42"},
        case("six", 42),
        case("seven", "42", gold=None),
        case("eight", "42", options=[1]),
        b'{"id": "\xff", "gold": "1", "prediction": "1"}',
        b"[" * 100_000,
        case("last", "\ud800 42"),
    ]
    code, lines, errors = run(
        capsys, write(tmp_path / "in.jsonl", records), "--verifier", "numeric"
    )
    assert code == 2
    assert [(line["id"], line["verdict"]) for line in lines] == [
        ("first", "correct"),
        ("last", "correct"),
    ]
    reported = errors.splitlines()
    assert [text.split(":")[0] for text in reported] == [
        f"line {n}" for n in (2, 3, 5, 6, 7, 8, 9, 10)
    ]
    reasons = ["not JSON", "list", "gold missing", "int", "NoneType", "list", "utf-8", "not JSON"]
    for text, reason in zip(reported, reasons, strict=True):
        assert reason in text


def test_more_lines_than_are_held_in_flight_come_out_complete(tmp_path, capsys):
    records = [case(i, str(i), gold=str(i - i % 2)) for i in range(1000)]
    code, lines, _ = run(capsys, write(tmp_path / "in.jsonl", records), "--verifier", "exact")
    assert code == 0
    assert [line["id"] for line in lines] == list(range(1000))
    assert [line["verdict"] for line in lines] == ["correct", "wrong"] * 500


def test_an_empty_file_gives_no_lines(tmp_path, capsys):
    assert run(capsys, write(tmp_path / "in", []), "--verifier", "exact") == (0, [], "")


def test_a_verdict_is_printed_while_standard_input_is_still_open():
    program = (
        "import argparse, sys; from rlvr_platform.cli import grade;"
        "p = argparse.ArgumentParser(); grade.add_parser(p.add_subparsers());"
        "a = p.parse_args(sys.argv[1:]); sys.exit(a.run(a))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, "grade", "-", "--verifier", "exact"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        for i in range(3):
            process.stdin.write(json.dumps(case(i, "42")).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == i
        process.stdin.close()
        assert process.wait(timeout=20) == 0


def test_an_unknown_verifier_is_refused_with_the_known_ones(tmp_path, capsys):
    with pytest.raises(SystemExit) as refused:
        parse(tmp_path / "in.jsonl", "--verifier", "maths")
    assert refused.value.code == 2
    assert "'math'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["absent.jsonl", "."])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path, name):
    args = parse(tmp_path / name, "--verifier", "exact")
    with pytest.raises(InputError, match="cannot read"):
        args.run(args)


@pytest.mark.parametrize("option", [("--workers", 0), ("--deadline", -1)])
def test_an_impossible_pool_is_a_configuration_error(tmp_path, option):
    args = parse(tmp_path, "--verifier", "exact", *option)
    with pytest.raises(ConfigError, match="greater"):
        args.run(args)
