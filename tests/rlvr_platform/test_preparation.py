import json
from pathlib import Path

import pytest

from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.models.arithmetic import character_tokenizer, new_model
from rlvr_platform.preparation import prepare

CONFIG = Path(__file__).parents[2] / "configs/dev/arithmetic.yaml"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = character_tokenizer()
    new_model(ArithmeticModel(hidden_size=32, layers=1, heads=1), tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three tasks, the second with a gold answer that is not a number."""
    path = tmp_path / "data.jsonl"
    records = [("1+1=", "2"), ("1+2=", "three"), ("12345678901234567890+1=", "1")]
    lines = [json.dumps({"prompt": text, "answer": gold}) + "\n" for text, gold in records]
    path.write_text("".join(lines))
    return path


def config(model: Path, data: Path, *overrides: str) -> ExperimentConfig:
    given = (
        f"model={{kind: pretrained, path: {model}}}",
        f"data.train={{kind: jsonl, path: {data}}}",
        "data.max_prompt_tokens=10",
        "evaluation.suites=[]",
        "verifier.use={kind: numeric}",
    )
    return load_config(CONFIG, [*given, *overrides])


def test_a_gold_answer_that_does_not_verify_stops_with_its_line(model: Path, data: Path) -> None:
    with pytest.raises(InputError, match=r"1 gold answers do not verify[^$]*data.jsonl line 2"):
        prepare(config(model, data), say=lambda _: None)


def test_dropping_bad_gold_answers_keeps_the_others_and_says_so(model: Path, data: Path) -> None:
    said: list[str] = []
    prepared = prepare(config(model, data, "data.bad_gold=drop"), say=said.append)
    assert [prompt.gold for prompt in prepared.data.prompts] == ["2"]
    assert any("data.jsonl line 2" in text and "dropped" in text for text in said)
    assert any("1 above 10 tokens left out" in text for text in said)


def test_dropping_every_prompt_is_an_error(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"prompt": "1+2=", "answer": "three"}\n')
    with pytest.raises(InputError, match="no prompt of train has a gold answer that verifies"):
        prepare(config(model, path, "data.bad_gold=drop"), say=lambda _: None)


def test_rows_that_exceed_the_models_window_are_refused(model: Path, data: Path) -> None:
    override = ("rollout.max_new_tokens=4000", "learner.tokens_per_micro_batch=8000")
    with pytest.raises(ConfigError, match="4010 tokens"):
        prepare(config(model, data, *override), say=lambda _: None)


def test_a_probe_that_exceeds_the_models_window_is_refused(model: Path, data: Path) -> None:
    with pytest.raises(ConfigError, match=r"sync\.probe_tokens"):
        prepare(config(model, data, "sync.probe_tokens=4000"), say=lambda _: None)
