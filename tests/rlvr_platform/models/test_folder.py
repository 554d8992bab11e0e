import pytest

from rlvr_platform.errors import InputError
from rlvr_platform.models.folder import check_model_folder, context_window


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 64}')
    (tmp_path / "model.safetensors").write_bytes(b"x")
    (tmp_path / "tokenizer.json").write_text("{}")
    return tmp_path


def test_a_complete_folder_comes_back_absolute(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    assert check_model_folder(folder.name) == folder
    assert check_model_folder(str(folder)) == folder


@pytest.mark.parametrize("weights", ["model-00001-of-00002.safetensors", "pytorch_model.bin"])
def test_sharded_and_pickled_weights_count(folder, weights):
    (folder / "model.safetensors").rename(folder / weights)
    assert check_model_folder(str(folder)) == folder


@pytest.mark.parametrize("name", ["gpt2", "Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-135M"])
def test_hub_names_come_back_untouched(name):
    assert check_model_folder(name) == name


@pytest.mark.parametrize("path", ["/nowhere/model", "./model", "../model", "~/no/model", "a/b/c"])
def test_a_missing_folder_is_named(path, tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(InputError, match=r"model.* does not exist"):
        check_model_folder(path)


@pytest.mark.parametrize(
    "file, missing",
    [
        ("config.json", r"has no config\.json"),
        ("model.safetensors", "has no weights"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_what_is_missing_in_a_folder_is_named(folder, file, missing):
    (folder / file).unlink()
    with pytest.raises(InputError, match=missing):
        check_model_folder(str(folder))


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_broken_config_is_an_error(folder, content):
    (folder / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"config\.json"):
        check_model_folder(str(folder))


def test_a_file_in_place_of_the_folder_is_an_error(folder):
    with pytest.raises(InputError, match="is a file"):
        check_model_folder(str(folder / "config.json"))


def test_the_context_window_is_the_one_of_the_config(folder):
    assert context_window(folder) == 64
    (folder / "config.json").write_text("{}")
    assert context_window(folder) is None
