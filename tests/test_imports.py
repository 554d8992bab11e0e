"""What loads without what: each import runs in a fresh interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "ray", "vllm", "deepspeed", "transformers", "gpytorch", "cvxpy")
LIGHT = (
    "types",
    "ports",
    "config",
    "data.sources",
    "data.sampler",
    "replay.buffer",
    "verifiers.pool",
    "telemetry.names",
    "telemetry.sinks",
    "run_folder",
    "cli.main",
)


def loaded_by(module: str) -> set[str]:
    script = f"import sys, json, {module}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.parametrize("module", LIGHT)
def test_loads_without_any_heavy_package(module):
    assert loaded_by(f"rlvr_platform.{module}").isdisjoint(HEAVY)


def test_the_probe_itself_sees_a_heavy_package():
    assert "ray" in loaded_by("ray")
