"""Writing and reading checkpoints: what the actors keep, beside the loop's own state."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from actors.deadlines import all_ended
from rlvr_platform.config.checkpoint import CheckpointConfig
from rlvr_platform.ports import Ports
from rlvr_platform.recorder import Recorder
from rlvr_platform.training_state import ALLOCATOR_FOLDER, BUFFER_FOLDER, TrainingState


async def save(
    state: TrainingState, ports: Ports, recorder: Recorder, config: CheckpointConfig
) -> None:
    """Write checkpoints/step-NNNNNN, whole or not at all, then remove those too old.

    Raises ClusterError when the disk has no room for it.
    """
    began = time.perf_counter()
    recorder.seal()
    with recorder.run.new_checkpoint(state.step) as folder:
        for part in (BUFFER_FOLDER, ALLOCATOR_FOLDER):
            (folder / part).mkdir()
        # Until the last one has ended: an error removes the folder.
        await all_ended(
            [
                ports.learner.save(folder),
                ports.buffer.save(folder / BUFFER_FOLDER),
                ports.allocator.save(folder / ALLOCATOR_FOLDER),
            ]
        )
        state.write(folder)
    ports.learner.saved(recorder.run.checkpoint(state.step))
    retained = recorder.run.retain_checkpoints(config)
    recorder.event(
        "checkpoint",
        step=state.step,
        seconds=round(time.perf_counter() - began, 3),
        removed=[old.name for old in retained.removed],
        measured=retained.measured,
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
