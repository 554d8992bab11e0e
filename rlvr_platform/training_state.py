"""Where a run stands between two steps, and what a checkpoint folder holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlvr_platform.errors import InputError

STATE_FILE = "state.json"
MODEL_FOLDER = "model"
BUFFER_FOLDER = "buffer"
ALLOCATOR_FOLDER = "allocator"


@dataclass(frozen=True, slots=True)
class TrainingState:
    """Everything the loop itself must know to go on; the learner keeps its own state."""

    step: int
    """Finished training steps."""
    version: int
    """Weight version after them; lower than `step` when steps had nothing to train on."""
    sampler: dict[str, Any]
    """Position of the data before the first prompt of step + 1. Groups generated ahead are
    generated again, from the same prompts with the same seeds."""
    trigger: dict[str, float] = field(default_factory=dict)
    """AVSPO's threshold and averages; empty without AVSPO."""
    quarantined: list[int] = field(default_factory=list)
    """Indices of the prompts that no engine survives; they are passed over."""

    def write(self, folder: Path) -> None:
        text = json.dumps(asdict(self), indent=2) + "\n"
        (folder / STATE_FILE).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> TrainingState:
        """Raises InputError when the folder holds no such state."""
        path = folder / STATE_FILE
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"cannot read {path}: {error}", "a checkpoint of a run") from None
