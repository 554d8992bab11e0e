import os
import sys
from pathlib import Path

import pytest

from rlvr_platform.runtime import default_environment, extensions_folder


def test_ninja_is_found_without_activating_the_environment(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    first = default_environment()["PATH"].split(os.pathsep)[0]
    assert first == str(Path(sys.executable).parent)


def test_what_the_user_has_set_wins(monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", "/elsewhere")
    assert default_environment()["TORCH_EXTENSIONS_DIR"] == "/elsewhere"


def test_applying_it_twice_changes_nothing(monkeypatch):
    once = default_environment()
    for name, value in once.items():
        monkeypatch.setenv(name, value)
    assert default_environment() == once


@pytest.mark.parametrize(("device", "forced"), [("cpu", True), ("gpu", False)])
def test_deepspeed_is_told_to_use_the_cpu_only_on_cpu(device, forced, monkeypatch):
    monkeypatch.delenv("DS_ACCELERATOR", raising=False)
    assert ("DS_ACCELERATOR" in default_environment(device)) is forced


def test_extensions_lie_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert extensions_folder().is_relative_to(tmp_path / "rlvr")
