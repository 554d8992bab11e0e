"""A planted secret is in nothing that a run, a command or a message leaves behind."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.cli.main import main
from rlvr_platform.config import load_config
from rlvr_platform.config.loader import read_tree
from rlvr_platform.errors import ConfigError
from rlvr_platform.report import write_report
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.secrets import MASK, SHORTEST_VALUE, masked, secret_problems
from rlvr_platform.verifiers.endpoint import Endpoint

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "configs/dev/arithmetic.yaml"
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
PLANTED = "plantedSecret0123456789abcdef"
ENDPOINT = ["verifier.use.kind=endpoint", "verifier.use.url=https://judge.example/v1"]
SPOTTED = [
    "verifier.use.url=https://user:{}@judge.example/v1",
    "verifier.use.url=https://{}@judge.example/v1",
    "verifier.use.url=https://judge.example/v1?a=1&api_key={}",
    "verifier.use.url=https://judge.example/v1?access_token={}#x",
    "verifier.use.url=https://judge.example/hf_{}xxxx",
    "data.train={{kind: jsonl, path: 'https://user:{}@example.com/a.jsonl'}}",
    "data.train={{kind: reasoning_gym, dataset: x, options: {{api_key: {}}}}}",
    "model={{kind: pretrained, path: 'https://user:{}@example.com/model'}}",
    "data.format.system='Authorization: Bearer {}'",
]


@pytest.mark.parametrize("override", SPOTTED)
def test_a_configuration_with_a_secret_is_refused_without_repeating_it(override, capsys):
    for command in (["config", "show"], ["config", "check"], ["train"]):
        assert main([*command, str(EXAMPLE), *ENDPOINT, override.format(PLANTED)]) == 2
        shown = "".join(capsys.readouterr())
        assert "holds a password, token or key" in shown
        assert PLANTED not in shown


@pytest.mark.parametrize(
    "override",
    [
        f"verifier.use.api_key={PLANTED}",
        f"verifier.use.token_variable={PLANTED}",
        f"verifier.use.token_variable=sk-{PLANTED}",
        f"verifier.use.url=ftp://user:{PLANTED}@judge.example",
        f"verifier.use.url='https://user:{PLANTED}@judge.example' x",
        f"https://user:{PLANTED}@judge.example",
        f"verifier.use.deadline_s=hf_{PLANTED}xxxx",
    ],
)
def test_an_illegal_value_is_refused_without_repeating_the_secret(override, capsys):
    assert main(["config", "check", str(EXAMPLE), *ENDPOINT, override]) == 2
    assert PLANTED not in "".join(capsys.readouterr())


def test_a_file_that_is_no_yaml_is_refused_without_repeating_the_secret(tmp_path, capsys):
    file = tmp_path / "a.yaml"
    file.write_text(f"verifier:\n  url: 'https://user:{PLANTED}@judge.example'] x\n")
    assert main(["config", "check", str(file)]) == 2
    assert PLANTED not in "".join(capsys.readouterr())


def test_nothing_of_a_run_holds_a_secret_of_the_environment(tmp_path, monkeypatch, capsys):
    for name in ("JUDGE_TOKEN", "HF_TOKEN", "WANDB_API_KEY", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, PLANTED)
    overrides = [*ENDPOINT, "verifier.use.token_variable=JUDGE_TOKEN"]
    config = load_config(EXAMPLE, overrides)
    assert Endpoint(config.verifier.use)  # the token was found
    run = RunFolder.create(tmp_path / "run", config, min_free_bytes=0)
    run.close()
    run = RunFolder.resume(run.path, config, min_free_bytes=0)
    run.close()
    write_report(run.path, run.report)
    assert main(["config", "show", str(EXAMPLE), *overrides]) == 0
    assert PLANTED not in "".join(capsys.readouterr())
    files = [path for path in run.path.rglob("*") if path.is_file()]
    assert {run.config, run.manifest, run.report} <= set(files)
    assert not [path for path in files if PLANTED.encode() in path.read_bytes()]
    assert "JUDGE_TOKEN" in run.config.read_text()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://user:{}@host/a", "https://user:"),
        ("could not reach s3://{}@bucket/x", "could not reach s3://"),
        ("GET /v1?x=1&sig={}&y=2", "GET /v1?x=1&sig="),
        ("GET /v1?accessToken={}", "GET /v1?accessToken="),
        ("{{'Authorization': 'Bearer {}'}}", "{'Authorization': 'Bearer "),
        ("401 for hf_{}xxxx", "401 for "),
        ("value of the environment: {}", "value of the environment: "),
    ],
)
def test_secrets_are_masked_and_the_rest_of_a_text_stays(text, kept, monkeypatch):
    if text.startswith("value of the environment"):
        monkeypatch.setenv("SOME_API_KEY", PLANTED)
    found = masked(text.format(PLANTED))
    assert PLANTED not in found
    assert MASK in found
    assert found.startswith(kept.removesuffix("user:"))


@given(st.text())
def test_masking_twice_is_masking_once(text):
    assert masked(masked(text)) == masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://host/path?steps=3&page=2#key",
        "user@example.com",
        "http://[::1]:80/x@y",
        "a = b ? c : d@e",
        "Bearer of news",
        "sk-learn and hf_hub",
        "What is 12@3? Let key=4.",
    ],
)
def test_ordinary_text_stays(text):
    assert masked(text) == text


def test_short_values_and_paths_of_the_environment_are_no_secrets(monkeypatch):
    monkeypatch.setenv("MODE_KEY", "x" * (SHORTEST_VALUE - 1))
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/home/somebody/.ray/auth_token")
    text = f"{os.environ['MODE_KEY']} {os.environ['RAY_AUTH_TOKEN_PATH']}"
    assert masked(text) == text


def test_a_secret_is_found_wherever_it_stands():
    tree = {"a": [{"b": f"https://x:{PLANTED}@h"}], "password": "x", "key": "x", "n": 3}
    lines = list(secret_problems(tree))
    assert [line.partition(":")[0] for line in lines] == ["a.0.b", "password"]
    assert PLANTED not in json.dumps(lines)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_configuration_of_ours_is_taken_for_a_secret(path):
    assert not list(secret_problems(read_tree(path)))


def test_a_run_whose_recorded_configuration_holds_a_secret_is_refused(tmp_path):
    run = RunFolder.create(tmp_path / "run", load_config(EXAMPLE, ENDPOINT), min_free_bytes=0)
    run.close()
    leaky = run.config.read_text().replace("judge.example", f"u:{PLANTED}@judge.example")
    run.config.write_text(leaky)
    with pytest.raises(ConfigError) as error:
        load_config(run.config)
    assert PLANTED not in str(error.value)
