"""Writing and reading checkpoints: the learner's own state beside the loop's."""

from __future__ import annotations

import time
from pathlib import Path

from rlvr_platform.files import atomic_folder
from rlvr_platform.ports import Learner
from rlvr_platform.recorder import Recorder
from rlvr_platform.training_state import TrainingState


async def save(state: TrainingState, learner: Learner, recorder: Recorder, keep_last: int) -> None:
    """Write checkpoints/step-NNNNNN, whole or not at all, then remove those too old."""
    began = time.perf_counter()
    recorder.seal()
    path = recorder.run.checkpoint(state.step)
    with atomic_folder(path) as folder:
        await learner.save(folder)
        state.write(folder)
    removed = recorder.run.prune_checkpoints(keep_last)
    recorder.event(
        "checkpoint",
        step=state.step,
        seconds=round(time.perf_counter() - began, 3),
        removed=[old.name for old in removed],
    )


async def load(folder: Path, learner: Learner) -> TrainingState:
    """Put the learner where the checkpoint left it; returns the loop's state."""
    state = TrainingState.read(folder)
    await learner.load(folder)
    return state
