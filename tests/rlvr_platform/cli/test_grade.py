import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlvr_platform.cli import grade
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.telemetry.rollouts import Recorded, write_rollouts
from rlvr_platform.types import (
    Fate,
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)

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


def recorded_group(step, size, fate):
    prompt = Prompt(0, "?", np.zeros(1, np.int32), "42", "sums", {"choices": ["a", "b"]})
    group = RolloutGroup(
        ticket=Ticket(0, step, prompt, size, 0),
        tokens=np.zeros(size, np.int32),
        offsets=np.arange(size + 1, dtype=np.int64),
        loss_mask=np.ones(size, bool),
        logprobs=np.zeros(size, np.float32),
        versions=np.zeros(size, np.int32),
        finish=np.zeros(size, np.uint8),
        texts=tuple(f"text {i}" for i in range(size)),
    )
    outcomes = [list(Outcome)[i % len(Outcome)] for i in range(size)]
    rewards = {Outcome.CORRECT: 1.0, Outcome.WRONG: 0.0, Outcome.NO_ANSWER: 0.0}
    verdicts = tuple(Verdict(o, rewards.get(o), "x", "rule", 0.1) for o in outcomes)
    graded = GradedGroup(summarise(group, 1.0), verdicts, group)
    return Recorded(group, graded, np.zeros(size), np.full(size, fate), np.arange(size))


@pytest.fixture
def recorded_run(tmp_path):
    """Six rollouts of step 5, six of step 6, which also trained on those of step 5 again."""
    folder = tmp_path / "run"
    (folder / "rollouts").mkdir(parents=True)
    (folder / "config.yaml").touch()
    first, second = recorded_group(5, 6, Fate.POOLED), recorded_group(6, 6, Fate.TRAINED)
    again = recorded_group(5, 6, Fate.REPLAYED)
    write_rollouts(folder / "rollouts/step-000005.parquet", [first])
    write_rollouts(folder / "rollouts/step-000006.parquet", [second, again])
    return folder


def test_every_line_gets_its_verdict_in_input_order(tmp_path, capsys):
    completions = [r"\boxed{42}", r"\boxed{41}", "", "<answer>42</answer>"]
    file = write(tmp_path / "in.jsonl", [case(i, text) for i, text in enumerate(completions)])
    code, lines, errors = run(capsys, file, "--verifier", "math")
    assert (code, errors) == (0, "")
    assert [line["id"] for line in lines] == list(range(4))
    outcomes = ["correct", "wrong", "no_answer", "correct"]
    assert [line["verdict"] for line in lines] == outcomes
    assert [line["reward"] for line in lines] == [1.0, 0.0, 0.0, 1.0]
    assert [line["extracted"] for line in lines] == ["42", "41", "", "42"]
    keys = {"id", "verdict", "reward", "extracted", "rule", "seconds"}
    assert all(set(line) == keys for line in lines)


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
        {**case("eight", "42"), "prediction_parts": [["4"]]},
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
    reasons = ["not JSON", "list", "gold missing", "int", "None", "parts", "utf-8", "not JSON"]
    for text, reason in zip(reported, reasons, strict=True):
        assert reason in text


def test_more_lines_than_are_held_in_flight_come_out_complete(tmp_path, capsys):
    records = [case(i, str(i), gold=str(i - i % 2)) for i in range(1000)]
    code, lines, _ = run(capsys, write(tmp_path / "in.jsonl", records), "--verifier", "exact")
    assert code == 0
    assert [line["id"] for line in lines] == list(range(1000))
    assert [line["verdict"] for line in lines] == ["correct", "wrong"] * 500


def test_the_deadline_is_that_of_the_command_line(tmp_path, capsys):
    long = "x" * 5_000_000  # Takes longer to travel than the deadline.
    file = write(tmp_path / "in.jsonl", [case(0, long)])
    _, (line,), _ = run(capsys, file, "--verifier", "exact", "--deadline", "1e-6")
    assert (line["verdict"], line["reward"]) == ("timeout", None)


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


CASES = [
    ("a", "42", True),
    ("b", "43", True),
    ("c", "42", False),
    ("d", "43", False),
    ("e", "", True),
    ("f", "4 2", False),
]


def labelled(path, **renamed):
    rows = [
        {**case(i, text), "expected": label, "class": "odd" if i in "ace" else "even"}
        for i, text, label in CASES
    ]
    return write(path, [{renamed.get(k, k): v for k, v in row.items()} for row in rows])


def report(capsys, *arguments):
    code, (document,), errors = run(capsys, *arguments, "--json")
    assert (code, errors) == (0, "")
    return document


def test_labelled_rows_give_the_confusion_table_and_every_disagreement(tmp_path, capsys):
    file = labelled(tmp_path / "in.jsonl")
    (found,) = report(capsys, "--labelled", file, "--verifier", "exact")["verifiers"]
    assert found["total"]["rows"] == 6
    assert found["classes"]["odd"]["error_rate"] == pytest.approx(2 / 3)
    assert found["classes"]["even"]["false_negative_rate"] == 1.0
    assert [(d["id"], d["disagreement"]) for d in found["disagreements"]] == [
        ("b", "false_negative"),
        ("c", "false_positive"),
        ("e", "false_negative"),
    ]
    args = parse("--labelled", file, "--verifier", "exact")
    assert args.run(args) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[3].split() == ["total", "6", "1", "2", "2", "1", "0", "50.00%", "33.33%", "66.67%"]
    assert [json.loads(line)["id"] for line in text[5:]] == ["b", "c", "e"]


def test_columns_may_have_other_names(tmp_path, capsys):
    names = {"id": "key", "gold": "answer", "prediction": "output", "expected": "ok", "class": "c"}
    file = labelled(tmp_path / "in.jsonl", **names)
    fields = "id=key,gold=answer,prediction=output,label=ok,class=c"
    mapped = ("--labelled", file, "--verifier", "exact", "--field-map", fields)
    plain = ("--labelled", labelled(tmp_path / "plain.jsonl"), "--verifier", "exact")
    first, second = report(capsys, *mapped), report(capsys, *plain)
    del first["verifiers"][0]["slowest_s"], second["verifiers"][0]["slowest_s"]
    assert first == second


def test_two_verifiers_give_the_rate_and_list_of_their_disagreements(tmp_path, capsys):
    texts = ["42", "it is 42", "41", "42.0"]
    file = write(tmp_path / "in.jsonl", [case(i, text) for i, text in enumerate(texts)])
    found = report(capsys, file, "--verifier", "exact", "--verifier", "numeric")
    assert (found["rows"], found["disagreement_rate"]) == (4, 0.5)
    assert [d["id"] for d in found["disagreements"]] == [1, 3]
    assert found["disagreements"][0]["first"]["verdict"] == "wrong"
    assert found["disagreements"][0]["second"]["verdict"] == "correct"
    assert found["counts"]["wrong"]["correct"] == 2


def test_two_verifiers_on_labelled_rows_give_both_tables_and_the_comparison(tmp_path, capsys):
    file = labelled(tmp_path / "in.jsonl")
    found = report(capsys, "--labelled", file, "--verifier", "exact", "--verifier", "numeric")
    assert [part["verifier"] for part in found["verifiers"]] == ["exact", "numeric"]
    (comparison,) = found["comparisons"]
    assert comparison["rows"] == 6


def test_options_belong_to_the_verifier_before_them(tmp_path, capsys):
    file = write(tmp_path / "in.jsonl", [case(0, "a", gold="A"), case(1, "42", gold="43")])
    given = ("--verifier", "exact", "--option", "ignore_case=true", "--verifier", "exact")
    found = report(capsys, file, *given)
    assert (found["first"], found["second"]) == ("exact ignore_case=true", "exact")
    assert [d["id"] for d in found["disagreements"]] == [0]
    numeric = ("--option", "relative_tolerance=0.1", "--verifier", "numeric")
    assert run(capsys, file, *numeric)[1][1]["verdict"] == "correct"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--option", "ignore_cas=true"), "no option ignore_cas"),
        (("--option", "ignore_case=perhaps"), "ignore_case"),
        (("--option", "ignore_case"), "ignore_case"),
        (("--verifier", "numeric", "--verifier", "math"), "3 verifiers"),
        (("--step", "1"), "--run"),
        (("--field-map", "answer=gold"), "answer=gold"),
        (("--field-map", "gold="), "gold="),
    ],
)
def test_settings_that_make_no_sense_are_configuration_errors(tmp_path, arguments, reason):
    args = parse(write(tmp_path / "in", []), "--verifier", "exact", *arguments)
    with pytest.raises(ConfigError, match=reason):
        args.run(args)


@pytest.mark.parametrize("sources", [(), ("in.jsonl", "--labelled", "in.jsonl")])
def test_there_is_one_source_of_rows(sources):
    with pytest.raises(SystemExit) as refused:
        parse(*sources, "--verifier", "exact")
    assert refused.value.code == 2


def test_a_recorded_run_is_graded_again(tmp_path, capsys, recorded_run):
    found = report(capsys, "--run", recorded_run, "--verifier", "exact")
    # Recorded as correct, wrong, no_answer, timeout, error in turn; none answers 42.
    assert found["rows"] == 12
    assert found["counts"]["correct"]["wrong"] == 4
    assert found["disagreements"][0]["id"] == "5/0/0"
    one = report(capsys, "--run", recorded_run, "--verifier", "exact", "--step", "6")
    assert one["rows"] == 6
    numeric = ("--verifier", "numeric", "--option", "absolute_tolerance=50.0")
    assert report(capsys, "--run", recorded_run, *numeric)["counts"]["correct"]["correct"] == 4


@pytest.mark.parametrize(("more", "reason"), [((), "no run"), (("--step", "9"), "no rollouts")])
def test_a_folder_without_what_was_asked_for_is_an_input_error(
    tmp_path, recorded_run, more, reason
):
    folder = recorded_run if more else tmp_path / "absent"
    args = parse("--run", folder, "--verifier", "exact", *more)
    with pytest.raises(InputError, match=reason):
        args.run(args)
