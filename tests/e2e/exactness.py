"""What must be equal, bit for bit, between a run and the same run interrupted and resumed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from tests.e2e.conftest import Run


def last_checkpoint(run: Run) -> Path:
    return max((run.folder / "checkpoints").glob("step-??????"))


def weights(run: Run) -> str:
    """SHA-256 of the last checkpoint's weights."""
    model = last_checkpoint(run) / "model/model.safetensors"
    return hashlib.sha256(model.read_bytes()).hexdigest()


def optimizer(run: Run) -> dict[str, torch.Tensor]:
    """AdamW's moments and step counts, by place."""
    (file,) = (last_checkpoint(run) / "optimizer").rglob("mp_rank_00_model_states.pt")
    state = torch.load(file, weights_only=False)["optimizer"]["state"]
    return {f"{i}.{name}": value for i, entry in state.items() for name, value in entry.items()}


def methods(run: Run) -> dict[str, np.ndarray]:
    """What the replay buffer and the allocator hold."""
    checkpoint = last_checkpoint(run)
    arrays: dict[str, np.ndarray] = {}
    for file in ("buffer/experience.npz", "buffer/groups.npz", "allocator/predictor.npz"):
        with np.load(checkpoint / file) as saved:
            arrays |= {f"{file} {name}": saved[name] for name in saved}
    return arrays


def without_times(run: Run) -> list[dict[str, float]]:
    """Every metric of every step but the seconds."""
    return [
        {name: value for name, value in record.items() if not name.startswith("time/")}
        for record in run.metrics
    ]


def unequal(run: Run, other: Run) -> list[str]:
    """The parts in which two finished runs differ; empty when they are the same."""
    own, theirs = optimizer(run), optimizer(other)
    held, expected = methods(run), methods(other)
    same = {
        "weights": weights(run) == weights(other),
        "metrics": without_times(run) == without_times(other),
        "optimizer": bool(own)
        and own.keys() == theirs.keys()
        and all(torch.equal(own[name], theirs[name]) for name in own),
        "buffer or allocator": bool(held)
        and held.keys() == expected.keys()
        and all(np.array_equal(held[name], expected[name]) for name in held),
    }
    return [part for part, equal in same.items() if not equal]
