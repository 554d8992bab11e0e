"""Writing and reading checkpoints: what the actors keep, beside the loop's own state."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from rlvr_platform.files import atomic_folder
from rlvr_platform.ports import Ports
from rlvr_platform.recorder import Recorder
from rlvr_platform.training_state import ALLOCATOR_FOLDER, BUFFER_FOLDER, TrainingState


async def save(state: TrainingState, ports: Ports, recorder: Recorder, keep_last: int) -> None:
    """Write checkpoints/step-NNNNNN, whole or not at all, then remove those too old."""
    began = time.perf_counter()
    recorder.seal()
    path = recorder.run.checkpoint(state.step)
    with atomic_folder(path) as folder:
        for part in (BUFFER_FOLDER, ALLOCATOR_FOLDER):
            (folder / part).mkdir()
        await asyncio.gather(
            ports.learner.save(folder),
            ports.buffer.save(folder / BUFFER_FOLDER),
            ports.allocator.save(folder / ALLOCATOR_FOLDER),
        )
        state.write(folder)
    ports.learner.saved(path)
    removed = recorder.run.prune_checkpoints(keep_last)
    recorder.event(
        "checkpoint",
        step=state.step,
        seconds=round(time.perf_counter() - began, 3),
        removed=[old.name for old in removed],
    )


async def load(folder: Path, ports: Ports) -> TrainingState:
    """Put the actors where the checkpoint left them; returns the loop's state."""
    state = TrainingState.read(folder)
    await asyncio.gather(
        ports.learner.load(folder),
        ports.buffer.load(folder / BUFFER_FOLDER),
        ports.allocator.load(folder / ALLOCATOR_FOLDER),
    )
    return state
