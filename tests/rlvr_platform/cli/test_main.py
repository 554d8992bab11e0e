import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlvr_platform.cli import main as cli
from rlvr_platform.errors import ClusterError, ConfigError

ROOT = Path(__file__).parents[3]


def rlvr(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlvr_platform", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


class Command:
    """A command whose run does what the test says."""

    def __init__(self, run):
        self.run = run

    def add_parser(self, subparsers):
        subparsers.add_parser("it").set_defaults(run=self.run)


def run_command(monkeypatch, run) -> int:
    monkeypatch.setattr(cli, "COMMANDS", (Command(run),))
    return cli.main(["it"])


def raising(error):
    def run(args):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError("bad key", "a good key", "mend it"), 2), (ClusterError("no Ray"), 3)],
)
def test_an_error_of_ours_is_one_message_and_its_exit_code(monkeypatch, capsys, error, code):
    assert run_command(monkeypatch, raising(error)) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: {error}\n"


def test_an_interrupt_ends_with_130(monkeypatch):
    assert run_command(monkeypatch, raising(KeyboardInterrupt())) == 130


def test_a_fault_of_ours_keeps_its_traceback(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        run_command(monkeypatch, raising(ZeroDivisionError()))


def test_the_commands_own_exit_code_is_passed_on(monkeypatch):
    assert run_command(monkeypatch, lambda args: 17) == 17


def test_every_command_is_listed_in_help():
    done = rlvr("--help")
    assert done.returncode == 0
    for command in cli.COMMANDS:
        assert command.__name__.rpartition(".")[2].replace("_", "-") in done.stdout


@pytest.mark.parametrize(
    "arguments", [(), ("fly",), ("train",), ("train", "c.yaml", "--fly"), ("doctor", "more")]
)
def test_arguments_that_make_no_sense_exit_with_2_and_usage(arguments):
    done = rlvr(*arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["train", "c.yaml", "a=1", "b.c=2", "--run-dir", "d"],
        ["train", "--run-dir", "d", "c.yaml", "a=1", "b.c=2"],
        ["train", "c.yaml", "--run-dir", "d", "a=1", "b.c=2"],
        ["train", "c.yaml", "a=1", "--run-dir", "d", "b.c=2"],
    ],
)
def test_overrides_may_stand_before_and_after_options(words):
    args = cli.parse(words)
    assert args.config == Path("c.yaml")
    assert args.overrides == ["a=1", "b.c=2"]
    assert args.run_dir == Path("d")


@pytest.mark.parametrize(
    "arguments", [("--help",), ("config", "check", "configs/dev/arithmetic.yaml")]
)
def test_light_commands_answer_at_once(arguments):
    before = os.times()
    assert rlvr(*arguments).returncode == 0
    after = os.times()
    spent = sum(after[2:4]) - sum(before[2:4])
    assert spent < 1.5, "CPU seconds; a heavy import has crept in"


def test_a_reader_that_closes_the_pipe_early_gets_no_traceback():
    done = subprocess.run(
        f"{sys.executable} -m rlvr_platform config schema | head -n 1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "{\n"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
