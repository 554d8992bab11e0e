"""From the model section of a configuration to a model that can be loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rlvr_platform.config.model import (
    ArithmeticModel,
    ModelConfig,
    PretrainedModel,
    SmolLM2Model,
)
from rlvr_platform.models.cache import cached_model
from rlvr_platform.models.folder import check_model_folder

ARITHMETIC_BUILD = 1
"""Raise when a change to the builder or its tasks makes cached models wrong."""
SMOLLM2_BUILD = 1


def resolve_model(config: ModelConfig, progress: Callable[[str], None] = print) -> Path | str:
    """A complete model folder, built first where needed, or a hub name.

    `progress` gets a line of text now and then during a build of minutes.
    Raises InputError for a folder that holds no model and for a missing package.
    """
    match config:
        case PretrainedModel():
            return check_model_folder(config.path)
        case ArithmeticModel():
            key = f"{ARITHMETIC_BUILD} {config.model_dump_json()}".encode()
            name = f"arithmetic-{hashlib.sha256(key).hexdigest()[:12]}"
            return cached_model(name, partial(_arithmetic, config, progress))
        case SmolLM2Model():
            return cached_model(f"smollm2-{SMOLLM2_BUILD}", partial(_smollm2, progress))


# torch and transformers load only when something must be built.
def _arithmetic(config: ArithmeticModel, progress: Callable[[str], None], folder: Path) -> None:
    from rlvr_platform.models.arithmetic import build_arithmetic

    build_arithmetic(config, folder, progress)


def _smollm2(progress: Callable[[str], None], folder: Path) -> None:
    from rlvr_platform.models.smollm2 import convert_smollm2

    convert_smollm2(folder, progress)
