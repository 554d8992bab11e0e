import argparse
from pathlib import Path

import pytest

from rlvr_platform.cli import report
from rlvr_platform.config import load_config
from rlvr_platform.errors import InputError
from rlvr_platform.report import build_report
from rlvr_platform.run_folder import RunFolder

EXAMPLE = Path(__file__).parents[3] / "configs/dev/arithmetic.yaml"


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder.create(tmp_path / "run", load_config(EXAMPLE), min_free_bytes=0)
    yield folder.path
    folder.close()


def run(*arguments):
    parser = argparse.ArgumentParser(prog="rlvr")
    report.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["report", *map(str, arguments)])
    return args.run(args)


def test_the_report_is_written_into_the_run_and_its_path_printed(folder, capsys):
    assert run(folder) == 0
    out = folder / "report.html"
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8") == build_report(folder)


def test_the_report_goes_where_it_is_asked_for_and_nowhere_else(folder, tmp_path, capsys):
    out = tmp_path / "mail.html"
    before = sorted(folder.rglob("*"))
    assert run(folder, "--out", out) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_holds_no_run_is_an_input_error(tmp_path, name):
    with pytest.raises(InputError, match="holds no run") as refused:
        run(tmp_path / name)
    assert refused.value.exit_code == 2
    assert not list(tmp_path.glob("**/*.html"))


def test_a_place_that_cannot_be_written_is_an_input_error(folder, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        run(folder, "--out", tmp_path / "absent" / "report.html")
    with pytest.raises(InputError, match="cannot write"):
        run(folder, "--out", tmp_path)
