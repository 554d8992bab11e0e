"""Which checkpoints are kept, and how much room the next one needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr_platform.config.checkpoint import CheckpointConfig
from rlvr_platform.config.experiment import ExperimentConfig

MARGIN = 1.1
"""A checkpoint may be larger than the one before: the replay buffer in it grows."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def kept_steps(
    steps: Sequence[int], values: Mapping[int, float], config: CheckpointConfig
) -> set[int]:
    """Those of the checkpoints' `steps`, ascending, that stay.

    The newest `keep_last`, and the `keep_best` best by their value; of equal ones the later. A
    step without a value is not among the best.
    """
    sign = 1 if config.best_mode == "max" else -1
    measured = [step for step in steps if step in values]
    best = sorted(measured, key=lambda step: (sign * values[step], step), reverse=True)
    return {*steps[-config.keep_last :], *best[: config.keep_best]}


def metric_by_step(records: Iterable[Mapping[str, Any]], name: str) -> dict[int, float]:
    """The metric's value at each step of metrics.jsonl that has it."""
    return {record["step"]: record[name] for record in records if name in record}


def folder_bytes(folder: Path) -> int:
    """Size of all files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def first_checkpoint_bytes(published: float, config: ExperimentConfig) -> float:
    """What a checkpoint will need, from the bytes of weights that one update published.

    Each parameter is written twice in the learner's precision, as the exported model and as
    DeepSpeed's module, and three times in float32: master weight and AdamW's two moments.
    """
    parameters = published / _BYTES[config.rollout.engine.dtype]
    return parameters * (2 * _BYTES[config.learner.dtype] + 3 * _BYTES["float32"])
