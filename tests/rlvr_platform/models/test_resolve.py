import subprocess
import sys

import pytest

from rlvr_platform.config.model import ArithmeticModel, PretrainedModel, SmolLM2Model
from rlvr_platform.errors import InputError
from rlvr_platform.models import resolve
from rlvr_platform.models.resolve import resolve_model


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RLVR_CACHE", str(tmp_path))


def test_every_setting_of_the_arithmetic_model_has_a_folder_of_its_own(monkeypatch):
    monkeypatch.setattr(resolve, "_arithmetic", lambda *_: None)
    variants = [
        {},
        {"hidden_size": 128},
        {"layers": 2},
        {"heads": 2},
        {"accuracy_low": 0.1},
        {"accuracy_high": 0.5},
        {"seed": 1},
    ]
    assert len(variants) == len(ArithmeticModel.model_fields)
    folders = {resolve_model(ArithmeticModel(**v)) for v in variants}
    assert len(folders) == len(variants)
    assert resolve_model(ArithmeticModel(kind="arithmetic", seed=0)) in folders


def test_hub_names_pass_and_missing_folders_do_not():
    assert resolve_model(PretrainedModel(path="Qwen/Qwen3-0.6B")) == "Qwen/Qwen3-0.6B"
    with pytest.raises(InputError, match="does not exist"):
        resolve_model(PretrainedModel(path="/nowhere"))


def test_without_its_package_smollm2_names_the_extra_and_caches_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="extra `smollm2`"):
        resolve_model(SmolLM2Model())
    assert not [p for p in (tmp_path / "models").iterdir() if p.is_dir()]


def test_finding_a_model_folder_does_not_import_torch():
    code = (
        "import sys, rlvr_platform.models, rlvr_platform.data.prompts, rlvr_platform.data.sampler\n"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
