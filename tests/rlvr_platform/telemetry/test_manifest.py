import json
import socket
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from rlvr_platform.config import load_config
from rlvr_platform.telemetry.manifest import manifest

ROOT = Path(__file__).parents[3]
CONFIG = load_config(ROOT / "configs/dev/arithmetic.yaml", ["seed=5", "model.seed=6"])


def test_the_manifest_records_versions_seeds_and_hardware():
    found = manifest(CONFIG, gpus=["NVIDIA H200"])
    assert found["packages"]["numpy"] == version("numpy")
    assert found["seeds"] == {"run": 5, "model": 6}
    assert found["hardware"]["gpus"] == ["NVIDIA H200"]
    assert found["hardware"]["cpus"] >= 1
    assert found["hardware"]["memory_bytes"] > 1 << 28
    age = datetime.now(UTC) - datetime.fromisoformat(found["started_at"])
    assert timedelta(0) <= age < timedelta(minutes=1)


def test_the_manifest_is_json_and_does_not_name_the_machine():
    assert f'"{socket.gethostname()}"' not in json.dumps(manifest(CONFIG, gpus=[]))


def test_the_commit_is_recorded_exactly_in_a_checkout():
    commit = manifest(CONFIG, gpus=[])["commit"]
    if (ROOT / ".git").exists():
        assert len(commit["id"]) in (40, 64)
        assert isinstance(commit["modified"], bool)
    else:
        assert commit == {}
