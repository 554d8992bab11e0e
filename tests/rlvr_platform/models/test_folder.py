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


def test_sharded_weights_count(folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    assert check_model_folder(str(folder)) == folder


@pytest.mark.parametrize(
    "weights", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "consolidated.00.pth"]
)
def test_a_folder_with_pickled_weights_only_is_refused_with_the_reason(folder, weights):
    (folder / "model.safetensors").rename(folder / weights)
    with pytest.raises(InputError, match=f"are not safetensors: {weights}") as error:
        check_model_folder(str(folder))
    assert "save_pretrained" in error.value.fix


def test_pickled_weights_beside_safetensors_do_no_harm(folder):
    (folder / "pytorch_model.bin").write_bytes(b"x")
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
