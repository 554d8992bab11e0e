"""What a model folder must hold, checked before anything is started."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rlvr_platform.errors import InputError

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
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


def _require(folder: Path, patterns: tuple[str, ...], what: str) -> None:
    if not any(file.is_file() for pattern in patterns for file in folder.glob(pattern)):
        raise InputError(
            f"the model folder {folder.absolute()} has no {what}",
            f"one of {', '.join(patterns)}" if len(patterns) > 1 else patterns[0],
            "copy it there, or correct model.path",
        )
