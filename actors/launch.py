"""From a configuration to a finished run: inputs, cluster, actors, loop, and nothing left over."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ray.exceptions import RayError, RayTaskError

from actors.allocator import AllocatorActor, RemoteAllocator
from actors.checkpointing import load
from actors.cluster import gpu_names, ray_cluster
from actors.controller import Controller, Interrupted
from actors.deadlines import within
from actors.engine import engine_environment
from actors.learner import LearnerActor, RemoteLearners
from actors.placement import Placement, demand, require_supply
from actors.replay_buffer import RemoteBuffer, ReplayBufferActor
from actors.rollout_worker import RemoteRollouts, RolloutWorkerActor
from actors.verifier_pool import RemoteVerdicts, VerifierPoolActor
from actors.weight_transport import engine_init
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError, InputError, RlvrError
from rlvr_platform.memory import peak_memory
from rlvr_platform.ports import Ports
from rlvr_platform.preparation import Prepared, prepare
from rlvr_platform.recorder import Recorder
from rlvr_platform.report import write_report
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.runtime import thread_environment
from rlvr_platform.telemetry.live import LiveView
from rlvr_platform.telemetry.sinks import EventsLog
from rlvr_platform.training_state import TrainingState

INTERRUPTED = 130
STOP_DEADLINE_S = 30.0
SERVICE_DEADLINE_S = 120.0
MEMORY_DEADLINE_S = 10.0
LOAD_PHASES = 8
"""Phases of a weight load and its proof, each with sync.timeout_s of its own."""


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


@dataclass(frozen=True, slots=True)
class Actors:
    """The Ray handles of one run."""

    workers: Sequence[Any]
    learners: Sequence[Any]
    verifiers: Any
    buffer: Any
    allocator: Any


def create_actors(config: ExperimentConfig, model: str, placement: Placement) -> Actors:
    """Create all actors in their bundles; none has started its heavy part yet."""
    wanted, services = placement.demand, placement.demand.services_bundle
    engine_env = engine_environment(config)
    learner_env = thread_environment(config.learner.threads)

    def create(actor: Any, options: dict[str, Any], *arguments: Any) -> Any:
        return actor.options(**options).remote(*arguments)

    return Actors(
        workers=[
            create(
                RolloutWorkerActor,
                placement.options(bundle, gpus=wanted.gpus_per_worker, env=engine_env),
                *(index, config, model),
            )
            for index, bundle in enumerate(wanted.worker_bundle)
        ],
        learners=[
            create(
                LearnerActor,
                placement.options(bundle, gpus=wanted.gpus_per_learner, env=learner_env),
                *(rank, config, model),
            )
            for rank, bundle in enumerate(wanted.learner_bundle)
        ],
        verifiers=create(VerifierPoolActor, placement.options(services), config.verifier),
        buffer=create(ReplayBufferActor, placement.options(services, cpus=0), config),
        allocator=create(
            AllocatorActor,
            placement.options(services, cpus=0, env=thread_environment(1)),
            *(config, model),
        ),
    )


async def _train(
    config: ExperimentConfig,
    prepared: Prepared,
    recorder: Recorder,
    placement: Placement,
    checkpoint: Path | None,
) -> int:
    actors = create_actors(config, prepared.model, placement)
    learners = RemoteLearners(actors.learners, config)
    allocator = RemoteAllocator(actors.allocator)
    ports = Ports(
        rollouts=RemoteRollouts(actors.workers, LOAD_PHASES * config.sync.timeout_s),
        verdicts=RemoteVerdicts(actors.verifiers, config.verifier, recorder.event),
        buffer=RemoteBuffer(actors.buffer, config.replay),
        allocator=allocator,
        learner=learners,
    )
    try:
        with StopSignals() as signals:
            planning = allocator.start(prepared.data.prompts)
            await asyncio.gather(_start(config, actors, learners, recorder), planning)
            state = TrainingState(0, 0, prepared.data.sampler(config).state())
            if checkpoint is not None:
                state = await load(checkpoint, ports)
                recorder.event("resumed", step=state.step, version=state.version)
            controller = Controller(config, ports, prepared.data, state, recorder)
            return await _run_loop(controller, signals, actors, recorder)
    except RayTaskError as error:
        recorder.event("actor_failed", traceback=str(error))
        raise
    finally:
        recorder.close()
        await _stop(actors)


async def _run_loop(
    controller: Controller, signals: StopSignals, actors: Actors, recorder: Recorder
) -> int:
    """Run to the end or to a stop, and close with what was achieved."""
    signals.controller = controller
    try:
        await controller.run()
    except Interrupted:
        recorder.finish(controller.saved_step)
        return INTERRUPTED
    await _record_memory(actors, recorder)
    recorder.finish(controller.step)
    return 0


class StopSignals:
    """SIGINT and SIGTERM. The first asks the loop for a checkpoint; during the start, or when
    it comes again, it cancels what runs."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.controller: Controller | None = None
        self._task = asyncio.current_task()

    def __enter__(self) -> Self:
        for number in self.SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number in self.SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _received(self) -> None:
        if self.controller is not None and not self.controller.stopping:
            self.controller.stop()
        elif self._task is not None:
            self._task.cancel()


async def _start(
    config: ExperimentConfig, actors: Actors, learners: RemoteLearners, recorder: Recorder
) -> None:
    """Start engines, learners and verifiers side by side, each with its own deadline."""
    recorder.message(
        "starting engines and learners (a minute longer the first time on a machine, while "
        "DeepSpeed compiles an extension)"
    )
    limit = config.rollout.engine.start_timeout_s
    fix = "see the rollout worker's log; raise rollout.engine.start_timeout_s if it is just slow"
    engines = [
        within(worker.start.remote(), limit, f"rollout worker {i}'s start", fix)
        for i, worker in enumerate(actors.workers)
    ]
    pool = within(
        actors.verifiers.start.remote(), SERVICE_DEADLINE_S, "the verifier pool's start", ""
    )
    await asyncio.gather(pool, learners.start(), *engines)
    await _connect(config, actors, learners)


async def _connect(config: ExperimentConfig, actors: Actors, learners: RemoteLearners) -> None:
    """Open both sides of the weight transport at the same time: each waits for the other."""
    transport, devices = config.sync.transport, config.rollout.engine.tensor_parallel
    count, (address, port) = len(actors.workers), await learners.address()
    engines = [
        worker.connect.remote(engine_init(transport, address, port, i, count, devices))
        for i, worker in enumerate(actors.workers)
    ]
    both = asyncio.gather(learners.connect(address, port, count * devices), *engines)
    fix = "check that the nodes reach each other; sync.timeout_s sets the deadline"
    await within(both, config.sync.timeout_s, f"the {transport} weight transport", fix)


async def _record_memory(actors: Actors, recorder: Recorder) -> None:
    """Peak memory of every role as an event; a run that is done does not fail over it."""
    try:
        peaks = await asyncio.wait_for(peak_memories(actors), MEMORY_DEADLINE_S)
    except (TimeoutError, RayError) as error:
        recorder.message(f"peak memory is not known: {error}")
        return
    recorder.event("memory", **peaks)


async def peak_memories(actors: Actors) -> dict[str, int]:
    """Peak resident bytes by role; the largest of each kind."""
    single = {
        "verifier_pool": actors.verifiers,
        "replay_buffer": actors.buffer,
        "allocator": actors.allocator,
    }
    workers = await asyncio.gather(*(w.peak_memory.remote() for w in actors.workers))
    learners = await asyncio.gather(*(rank.peak_memory.remote() for rank in actors.learners))
    services = await asyncio.gather(*(actor.peak_memory.remote() for actor in single.values()))
    return {
        "controller": peak_memory(),
        "learner": max(learners),
        "rollout_worker": max(own for own, _ in workers),
        "engine": max(engine for _, engine in workers),
        **dict(zip(single, services, strict=True)),
    }


async def _stop(actors: Actors) -> None:
    """End what the actors started themselves; removing the placement group ends the actors."""
    calls = [actor.stop.remote() for actor in (*actors.workers, actors.verifiers)]
    try:
        await asyncio.wait_for(
            asyncio.gather(*calls, return_exceptions=True), timeout=STOP_DEADLINE_S
        )
    except TimeoutError:
        print(f"actors did not stop within {STOP_DEADLINE_S:g} s; Ray kills them now")
