"""What a model folder must hold, checked before anything is started."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_platform.errors import InputError

WEIGHTS = ("*.safetensors",)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt", "*.h5", "*.msgpack")
"""Weights in formats that run code when they are read, or that nothing here reads."""
TOKENIZER = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def check_model_folder(path: str) -> Path | str:
    """The folder, absolute, once it is known to hold a model; a hub name comes back as it is.

    Raises InputError naming what is missing.
    """
    folder = Path(path).expanduser()
    if not folder.exists() and _HUB_NAME.fullmatch(path) and not path.startswith("."):
        return path
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"the model folder {folder.absolute()} {what}",
            "a folder with config.json, weights and tokenizer, or a hub name",
            "correct model.path",
        )
    _read_config(folder)
    _refuse_pickles(folder)
    _require(folder, WEIGHTS, "weights")
    _require(folder, TOKENIZER, "tokenizer")
    return folder.absolute()


def context_window(folder: Path) -> int | None:
    """Longest prompt plus completion of the model, tokens; None when its config sets no limit."""
    config = _read_config(folder)
    return config.get("max_position_embeddings")


def _read_config(folder: Path) -> dict[str, Any]:
    _require(folder, ("config.json",), "config.json")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {folder / 'config.json'}: {error}") from None
    if not isinstance(config, dict):
        raise InputError(f"{folder / 'config.json'} holds no JSON object", "a model's config.json")
    return config


def _refuse_pickles(folder: Path) -> None:
    """Raise InputError for a folder whose only weights are of PICKLES."""
    if any(_files(folder, WEIGHTS)):
        return
    if other := sorted(file.name for file in _files(folder, PICKLES)):
        raise InputError(
            f"the weights in {folder.absolute()} are not safetensors: {', '.join(other[:3])}",
            "*.safetensors: reading a pickle runs whatever code its author put in",
            "if you trust them, convert them: load the folder with transformers and "
            "save_pretrained it elsewhere",
        )


def _files(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    return (file for pattern in patterns for file in folder.glob(pattern) if file.is_file())


def _require(folder: Path, patterns: tuple[str, ...], what: str) -> None:
    if not any(_files(folder, patterns)):
        raise InputError(
            f"the model folder {folder.absolute()} has no {what}",
            f"one of {', '.join(patterns)}" if len(patterns) > 1 else patterns[0],
            "copy it there, or correct model.path",
        )
