import json
from pathlib import Path

import pytest
import yaml

from rlvr_platform.cli.main import main
from rlvr_platform.config import load_config

FILE = str(Path(__file__).parents[3] / "configs/dev/arithmetic.yaml")


def test_show_prints_a_tree_that_loads_to_the_same_configuration(tmp_path, capsys):
    assert main(["config", "show", FILE, "steps=7"]) == 0
    shown = tmp_path / "shown.yaml"
    shown.write_text(capsys.readouterr().out)
    assert load_config(shown) == load_config(Path(FILE), ["steps=7"])


def test_show_as_json_is_the_same_tree(capsys):
    main(["config", "show", FILE])
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    main(["config", "show", FILE, "--json"])
    assert json.loads(capsys.readouterr().out) == as_yaml


def test_check_states_the_batch_arithmetic_of_a_legal_file(capsys):
    arguments = ["rollout.prompts_per_step=4", "rollout.rollouts_per_prompt=3", "steps=5"]
    assert main(["config", "check", FILE, *arguments, "learner.minibatches=2"]) == 0
    out = capsys.readouterr().out
    assert "5 steps of 4 prompts x 3 rollouts = 12, 10 optimizer steps" in out


def test_check_refuses_an_illegal_file_with_2_and_all_problems(capsys):
    assert main(["config", "check", FILE, "stepz=3", "seed=-1"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "stepz: unknown key; did you mean steps?" in err
    assert "seed" in err


@pytest.mark.parametrize(("override", "ok", "code"), [("steps=3", True, 0), ("stepz=3", False, 2)])
def test_check_as_json_carries_the_verdict(capsys, override, ok, code):
    assert main(["config", "check", FILE, override, "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is ok
    assert ("stepz" in report.get("error", "")) is not ok


def test_schema_describes_every_top_level_key(capsys):
    assert main(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert set(yaml.safe_load(Path(FILE).read_text())) <= set(schema["properties"])
    assert schema["additionalProperties"] is False
    assert "steps" in schema["required"]


def test_schema_of_an_illegal_file_is_refused(tmp_path, capsys):
    bad = tmp_path / "bad.yaml"
    bad.write_text("stepz: 3\n")
    assert main(["config", "schema", str(bad)]) == 2
    assert capsys.readouterr().out == ""
