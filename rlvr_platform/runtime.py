"""What a process of this platform needs in its environment."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
from pathlib import Path
from typing import Literal


def default_environment(device: Literal["cpu", "gpu"] = "cpu") -> dict[str, str]:
    """Environment variables for a process on this machine; what the user has set wins.

    Compute it in the process or on the node that uses it: paths differ between nodes.
    """
    defaults = {
        "TORCH_EXTENSIONS_DIR": str(extensions_folder()),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    if device == "cpu":
        defaults["DS_ACCELERATOR"] = "cpu"
    chosen = {name: os.environ.get(name, value) for name, value in defaults.items()}
    return {**chosen, "PATH": _path_with_interpreter()}


def thread_environment(threads: int) -> dict[str, str]:
    """OpenMP settings of a process that computes on the CPU; read when the process starts.

    Engine and learner take turns on the same cores. By default their threads spin for
    milliseconds between parallel regions and starve whoever is working: beside one other busy
    process a step took four times as long. Not spinning at all makes small models half as fast;
    a few microseconds cost nothing.
    """
    return {"OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "3000"}


def extensions_folder() -> Path:
    """Where compiled torch extensions are kept, apart for each Python environment and torch.

    Two environments that shared a folder would each recompile what the other compiled.
    """
    if chosen := os.environ.get("TORCH_EXTENSIONS_DIR"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    environment = hashlib.sha256(os.fsencode(sys.prefix)).hexdigest()[:8]
    build = f"{sys.implementation.cache_tag}-torch{_version('torch')}-{environment}"
    return Path(cache) / "rlvr" / "torch_extensions" / build


def _path_with_interpreter() -> str:
    """PATH led by the interpreter's folder: torch looks there for ninja, also unactivated."""
    folder, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    return path if folder in path.split(os.pathsep) else os.pathsep.join((folder, path))


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"
