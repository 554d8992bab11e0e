"""One clear message, the right exit code, no traceback, nothing half-written, nobody left."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rlvr_platform.models.arithmetic import character_tokenizer
from tests.e2e.conftest import MARK, processes_of, train

MODEL = "model={kind: pretrained, path: PATH}"


@pytest.fixture
def tokenizer_only(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer_only"
    character_tokenizer().save_pretrained(folder)
    return folder


def jsonl(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return f"data.train={{kind: jsonl, path: {path}}}"


def assert_refused(
    folder: Path, overrides: list[str], code: int, *words: str, config: str | None = None
) -> None:
    run = train(folder, overrides, *([config] if config else []), timeout=240)
    assert run.code == code, run.output
    assert "Traceback" not in run.output
    for word in words:
        assert word in run.output
    assert not folder.exists()
    assert processes_of(folder) == []


def test_a_missing_configuration(tmp_path: Path) -> None:
    assert_refused(tmp_path / "run", [], 2, "cannot read the configuration", config="no.yaml")


def test_a_key_that_does_not_exist(tmp_path: Path) -> None:
    assert_refused(tmp_path / "run", ["rollout.worker=2"], 2, "did you mean workers?")


def test_batch_arithmetic_that_cannot_work(tmp_path: Path) -> None:
    wrong = ["learner.tokens_per_micro_batch=8", "rollout.workers=99"]
    words = ("learner.tokens_per_micro_batch=8 cannot hold", "rollout.workers=99 exceeds")
    assert_refused(tmp_path / "run", wrong, 2, *words)


def test_a_missing_model_folder(tmp_path: Path) -> None:
    missing = MODEL.replace("PATH", str(tmp_path / "nowhere"))
    assert_refused(tmp_path / "run", [missing], 2, "nowhere")


def test_a_folder_that_holds_only_a_tokenizer(tmp_path: Path, tokenizer_only: Path) -> None:
    override = MODEL.replace("PATH", str(tokenizer_only))
    assert_refused(tmp_path / "run", [override], 2, str(tokenizer_only))


def test_an_empty_data_set(tmp_path: Path) -> None:
    assert_refused(tmp_path / "run", [jsonl(tmp_path / "empty.jsonl")], 2, "empty.jsonl")


def test_a_missing_column(tmp_path: Path) -> None:
    data = jsonl(tmp_path / "data.jsonl", {"question": "1+1=", "answer": "2"})
    assert_refused(tmp_path / "run", [data], 2, "prompt", "question")


def test_gold_answers_that_do_not_verify_are_listed_with_their_lines(tmp_path: Path) -> None:
    records = [{"prompt": "1+1=", "answer": "2"}, {"prompt": "1+2=", "answer": "three"}]
    data = jsonl(tmp_path / "data.jsonl", *records)
    override = [data, "verifier.use={kind: numeric}"]
    assert_refused(tmp_path / "run", override, 2, "data.jsonl line 2", "'three'")


def test_prompts_that_are_all_too_long(tmp_path: Path) -> None:
    data = jsonl(tmp_path / "data.jsonl", {"prompt": "1+" * 40 + "1=", "answer": "41"})
    assert_refused(tmp_path / "run", [data], 2, "too long", "data.max_prompt_tokens")


def test_a_window_longer_than_the_models(tmp_path: Path) -> None:
    override = ["rollout.max_new_tokens=4000", "learner.tokens_per_micro_batch=8000"]
    assert_refused(tmp_path / "run", override, 2, "the model's window")


def test_an_unknown_verifier(tmp_path: Path) -> None:
    assert_refused(tmp_path / "run", ["verifier.use={kind: vibes}"], 2, "verifier.use", "vibes")


def test_more_gpus_than_exist(tmp_path: Path) -> None:
    override = ["cluster.device=gpu", "rollout.engine.tensor_parallel=900"]
    assert_refused(tmp_path / "run", override, 3, "needs 901 GPUs and the Ray cluster has")


def test_a_ray_address_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1", MARK: str(tmp_path / "run")}
    monkeypatch.setattr("tests.e2e.conftest.environment_of", lambda folder: environment)
    override = ["cluster.connect_timeout_s=5"]
    assert_refused(tmp_path / "run", override, 3, "cannot join the Ray cluster at 127.0.0.1:1")


def test_a_run_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    run = train(blocker / "run", timeout=240)
    assert run.code == 2, run.output
    assert "Traceback" not in run.output
