"""From a configuration to a finished run: inputs, cluster, actors, loop, and nothing left over."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, Self

from ray.exceptions import RayError, RayTaskError

from actors.checkpointing import load
from actors.cluster import gpu_names, ray_cluster
from actors.controller import Controller, Interrupted
from actors.crew import Crew
from actors.placement import Placement, demand, require_supply
from actors.supervision import Supervision
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError, InputError, RlvrError
from rlvr_platform.preparation import Prepared, prepare
from rlvr_platform.recorder import Recorder
from rlvr_platform.report import write_report
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.live import LiveView
from rlvr_platform.telemetry.sinks import EventsLog
from rlvr_platform.training_state import TrainingState

INTERRUPTED = 130
MEMORY_DEADLINE_S = 10.0


def train(config: ExperimentConfig, run_dir: Path, resume: bool) -> int:
    """Train to the last step, or until SIGINT or SIGTERM; returns the exit code.

    Raises RlvrError for whatever the user can mend. Nothing of the run is left running.
    """
    prepared = prepare(config, say=print)
    wanted = demand(config)
    with ray_cluster(config, cpus=round(wanted.total("CPU"))) as where:
        print(where)
        require_supply(wanted)
        open_run = RunFolder.resume if resume else RunFolder.create
        run = open_run(run_dir, config, gpu_names())
        try:
            return _run(config, prepared, run, wanted)
        finally:
            run.close()


def _run(config: ExperimentConfig, prepared: Prepared, run: RunFolder, wanted: Any) -> int:
    checkpoint = run.latest_checkpoint()
    if checkpoint.found and checkpoint.found.step >= config.steps:
        raise InputError(
            f"the run in {run.path} is finished: step {checkpoint.found.step} of {config.steps}",
            "a run with steps left",
            "raise steps to go on, or `rlvr export` its model",
        )
    run.rewind(checkpoint.found.step if checkpoint.found else -1)
    try:
        code = _attempt(config, prepared, run, wanted, checkpoint)
    except Exception as error:
        _close(run, "failed", error=error.got if isinstance(error, RlvrError) else repr(error))
        raise
    _close(run, "interrupted" if code == INTERRUPTED else "finished")
    return code


def _close(run: RunFolder, kind: str, **fields: Any) -> None:
    """Say how the run ended, and write its report; a report that fails does not fail the run."""
    events = EventsLog(run)
    events.write(kind, **fields)
    events.close()
    try:
        write_report(run.path, run.report)
    except RlvrError as error:
        print(f"report.html was not written: {error}", file=sys.stderr)


def _attempt(
    config: ExperimentConfig, prepared: Prepared, run: RunFolder, wanted: Any, checkpoint: Any
) -> int:
    placement = Placement(config, wanted)
    try:
        with LiveView(config.steps) as view:
            recorder = Recorder(run, config, view)
            recorder.event("started")
            for reason in checkpoint.damaged:
                recorder.message(f"passed over a damaged checkpoint: {reason}")
                recorder.event("checkpoint_damaged", reason=reason)
            start = checkpoint.found.path if checkpoint.found else None
            job = _train(config, prepared, recorder, placement, start)
            return asyncio.run(_in_plain_words(job))
    finally:
        placement.remove()


async def _in_plain_words(work: Awaitable[int]) -> int:
    """Turn what Ray wraps around an actor's error back into that error."""
    try:
        return await work
    except asyncio.CancelledError:
        return INTERRUPTED
    except RayTaskError as error:
        if isinstance(error.cause, RlvrError):
            raise error.cause from None
        raise ClusterError(
            f"an actor failed with {type(error.cause).__name__}: {error.cause}",
            "all actors working",
            "the whole traceback is in the run's events.jsonl and in Ray's logs",
        ) from None
    except RayError as error:
        raise ClusterError(
            f"an actor of the run was lost: {error}",
            "all actors alive",
            "see Ray's logs; `--resume` goes on from the last checkpoint",
        ) from None


async def _train(
    config: ExperimentConfig,
    prepared: Prepared,
    recorder: Recorder,
    placement: Placement,
    checkpoint: Path | None,
) -> int:
    supervision = Supervision(config.supervision, recorder.event)
    crew = Crew(config, prepared, placement, supervision, recorder.run.offending)
    with StopSignals() as signals:
        try:
            recorder.message("starting engines and learners")
            await crew.start()
            state = TrainingState(0, 0, prepared.data.sampler(config).state())
            if checkpoint is not None:
                state = await load(checkpoint, crew.ports)
                recorder.event("resumed", step=state.step, version=state.version)
            controller = Controller(config, crew.ports, prepared.data, state, recorder)
            return await _run_loop(controller, signals, crew, recorder)
        except RayTaskError as error:
            recorder.event("actor_failed", traceback=str(error))
            raise
        finally:
            signals.ending = True
            recorder.close()
            await crew.stop()


async def _run_loop(
    controller: Controller, signals: StopSignals, crew: Crew, recorder: Recorder
) -> int:
    """Run to the end or to a stop, and close with what was achieved."""
    signals.controller = controller
    watching = asyncio.create_task(crew.watch())
    try:
        await controller.run()
    except Interrupted:
        recorder.finish(controller.saved_step)
        return INTERRUPTED
    finally:
        watching.cancel()
    await _record_memory(crew, recorder)
    recorder.finish(controller.step)
    return 0


class StopSignals:
    """SIGINT and SIGTERM. The first asks the loop for a checkpoint; during the start, or when
    it comes again, it cancels what runs. While the actors are ended it does nothing: that has
    deadlines, and what it would leave undone stays behind."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.controller: Controller | None = None
        self.ending = False
        self._task = asyncio.current_task()

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self.SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _received(self) -> None:
        if self.ending:
            return
        if self.controller is not None and not self.controller.stopping:
            self.controller.stop()
        elif self._task is not None:
            self._task.cancel()


async def _record_memory(crew: Crew, recorder: Recorder) -> None:
    """Peak memory of every role as an event; a run that is done does not fail over it."""
    try:
        peaks = await asyncio.wait_for(crew.peak_memories(), MEMORY_DEADLINE_S)
    except (TimeoutError, RayError) as error:
        recorder.message(f"peak memory is not known: {error}")
        return
    recorder.event("memory", **peaks)
