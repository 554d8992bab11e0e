"""The training loop. It knows the world by five ports and holds no token arrays.

    prompts -> allocator -> rollouts -> verdicts -> buffer          the generating stream
                               ^                      |
                            weights <--- learner <--- compose       the learning stream

The generating stream consumes prompts; it waits for the learning stream to come within
`max_lag` steps and is woken by a finished step. The learning stream consumes the buffer's
groups, step by step; it waits for the last group of its step and is woken by its insertion.
The two meet at the buffer and the weights' version, nowhere else.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from actors.checkpointing import save
from actors.supervision import in_short
from rlvr_platform.algorithms.avspo import starting_trigger
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.config.replay import NoReuse
from rlvr_platform.errors import ClusterError, SyncError, VerifierError, WeightsLost
from rlvr_platform.evaluation.suites import evaluate
from rlvr_platform.outcomes import groups_with_signal, observe
from rlvr_platform.ports import Ports
from rlvr_platform.preparation import Data
from rlvr_platform.progress import BusyClock, StepClock, StepTimer
from rlvr_platform.recorder import (
    Recorder,
    TimedAllocation,
    Update,
    allocation_metrics,
    buffer_metrics,
    group_metrics,
    update_metrics,
    with_overhead,
)
from rlvr_platform.step import (
    Composition,
    anchored,
    compose,
    pool_rows,
    pooled,
    replay_rows,
)
from rlvr_platform.tickets import first_ticket, tickets
from rlvr_platform.training_state import TrainingState
from rlvr_platform.types import (
    FinishedGroups,
    GradedGroup,
    LoadReport,
    Observation,
    Prompt,
    Quarantined,
    Ticket,
    TrainBatch,
    WeightSnapshot,
)
from rlvr_platform.verifiers.health import require_verdicts

T = TypeVar("T")

SYNC_ATTEMPTS = 3
"""Publications of one version: each takes a learner lost at an unlucky moment."""


class Interrupted(Exception):
    """The run was asked to stop; a checkpoint of its last finished step is safe."""


class Controller:
    """Runs the two streams from a training state to the last step."""

    def __init__(
        self,
        config: ExperimentConfig,
        ports: Ports,
        data: Data,
        state: TrainingState,
        recorder: Recorder,
    ) -> None:
        self._config = config
        self._ports = ports
        self._data = data
        self._recorder = recorder
        self._version = state.version
        self._trigger = starting_trigger(config.avspo, state.trigger)
        self._clock = StepClock(state.step)
        self._observed = StepClock(state.step)
        self._sampler = data.sampler(config)
        self._sampler.restore(state.sampler)
        self._quarantined = set(state.quarantined)
        self._positions = {state.step + 1: state.sampler}
        self._saved_step = state.step
        self._engines = BusyClock()
        self._allocations: dict[int, list[TimedAllocation]] = {}
        self._recording: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    @property
    def step(self) -> int:
        """Finished training steps."""
        return self._clock.step

    @property
    def saved_step(self) -> int:
        """The step of the newest checkpoint; 0 when there is none."""
        return self._saved_step

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Ask for a checkpoint and an end at the next step boundary."""
        self._stop.set()

    async def run(self) -> None:
        """Train to the last step. Raises Interrupted after `stop`, once a checkpoint is safe."""
        try:
            await self._sync()
            if self.step == 0:
                self._recorder.step({"step": 0, "version": 0, **await self._evaluate(0)})
            async with asyncio.TaskGroup() as streams:
                streams.create_task(self._generate(streams))
                streams.create_task(self._learn())
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _generate(self, streams: asyncio.TaskGroup) -> None:
        """Reserve and start each step's groups as soon as the lag bound allows.

        What the allocator must know is known before the update: it decides while learners work.
        """
        rollout = self._config.rollout
        for step in range(self.step + 1, self._config.steps + 1):
            before = step - 1 - rollout.max_lag
            await self._observed.reach(before)
            self._positions[step] = self._sampler.state()
            if rollout.sampling_rounds > 1:
                await self._clock.reach(before)
                streams.create_task(self._sample_dynamically(step))
            else:
                first = first_ticket(step, rollout)
                reserved = await self._reserve(step, first, rollout.prompts_per_step, more=False)
                await self._clock.reach(before)
                streams.create_task(self._roll_out(reserved))

    async def _sample_dynamically(self, step: int) -> None:
        """Round after round of new prompts, until enough groups carry signal."""
        rollout = self._config.rollout
        missing, ticket = rollout.prompts_per_step, first_ticket(step, rollout)
        for _ in range(rollout.sampling_rounds):
            reserved = await self._reserve(step, ticket, missing, more=True)
            missing -= await self._roll_out(reserved)
            ticket += len(reserved)
            if not missing:
                break
        await self._ports.buffer.expect(step, [], more=False)

    async def _reserve(self, step: int, first: int, count: int, more: bool) -> list[Ticket]:
        """Draw prompts, decide their rollouts, keep places in the buffer."""
        prompts = self._next_prompts(count)
        timer = StepTimer()
        with timer.phase("allocate"):
            budget = count * self._config.rollout.rollouts_per_prompt
            allocation = await self._ports.allocator.allocate(prompts, budget)
        timed = TimedAllocation(allocation, timer.seconds["allocate"])
        self._allocations.setdefault(step, []).append(timed)
        if allocation.fallback:
            self._recorder.event("allocation_fallback", step=step, reason=allocation.fallback)
        reserved = tickets(first, step, prompts, allocation.counts, self._config.seed)
        await self._ports.buffer.expect(step, [ticket.group_id for ticket in reserved], more)
        return reserved

    def _next_prompts(self, count: int) -> list[Prompt]:
        """Draw prompts, passing over those in quarantine."""
        prompts: list[Prompt] = []
        while len(prompts) < count:
            drawn = [
                self._data.prompts[index] for index in self._sampler.next(count - len(prompts))
            ]
            prompts += [prompt for prompt in drawn if prompt.index not in self._quarantined]
        return prompts

    async def _roll_out(self, reserved: Sequence[Ticket]) -> int:
        """Generate groups, graded and inserted as they finish; counts those with signal."""
        temperature = self._config.rollout.temperature
        async with asyncio.TaskGroup() as tasks:
            with self._engines.busy():
                settling = [
                    tasks.create_task(self._settle(settled))
                    async for settled in self._ports.rollouts.stream(reserved, temperature)
                ]
        return sum(task.result() for task in settling)

    async def _settle(self, settled: FinishedGroups | Quarantined) -> int:
        """Grade groups; or put a prompt into quarantine and let another one take its place."""
        if isinstance(settled, FinishedGroups):
            return await self._grade(settled)
        prompt, reason = settled.ticket.prompt, settled.reason
        self._recorder.quarantined(prompt, reason)
        self._quarantined.add(prompt.index)
        self._require_prompts_left()
        (other,) = self._next_prompts(1)
        return await self._roll_out([dataclasses.replace(settled.ticket, prompt=other)])

    def _require_prompts_left(self) -> None:
        if len(self._quarantined) == len(self._data.prompts):
            raise ClusterError(
                "every prompt is in quarantine: engines die or time out over all of them",
                "prompts that engines can complete",
                "see the rollout workers' logs; raise rollout.group_timeout_s",
            )

    async def _grade(self, groups: FinishedGroups) -> int:
        graded = await self._ports.verdicts.grade(groups)
        await self._ports.buffer.insert(graded)
        return groups_with_signal(graded)

    async def _learn(self) -> None:
        """Train on each step's groups once they are all in."""
        for step in range(self.step + 1, self._config.steps + 1):
            timer = StepTimer()
            await self._finish_step(step, await self._train(step, timer), timer)

    async def _train(self, step: int, timer: StepTimer) -> dict[str, float]:
        """Everything up to the step's metrics; nothing here refers to its rollouts afterwards."""
        with timer.phase("idle_learner"):
            groups, buffered = await self._unless_stopped(self._ports.buffer.take(step))
        fresh = compose(groups, step, self._version, self._trigger, self._config)
        await self._require_verdicts(step, groups, fresh)
        composition = await self._with_replay(step, fresh)
        observation = observe(groups, self._config.verifier)
        updated, _ = await asyncio.gather(
            self._update(composition.batch), self._observe(step, observation)
        )
        self._trigger = composition.trigger
        await self._record_rollouts(step, composition)
        return {
            **composition.metrics,
            **group_metrics(groups, self._config.verifier.pool.workers),
            **allocation_metrics(self._allocations.pop(step), observation),
            **buffer_metrics(buffered),
            **updated,
        }

    async def _with_replay(self, step: int, fresh: Composition) -> Composition:
        """Add rollouts of earlier steps, and store this step's for later ones."""
        reuse, buffer = self._config.replay.reuse, self._ports.buffer
        if isinstance(reuse, NoReuse):
            return fresh
        if reuse.composition == "pool":
            await buffer.keep(step, fresh.advantages, fresh.priorities)
            return pooled(fresh, await buffer.draw(step, self._version, pool_rows(fresh, reuse)))
        drawn = await buffer.draw(step, self._version, replay_rows(fresh, reuse))
        await buffer.keep(step, fresh.advantages, fresh.priorities)
        return anchored(fresh, drawn)

    async def _observe(self, step: int, observation: Observation) -> None:
        await self._ports.allocator.observe(observation)
        await self._observed.advance(step)

    async def _require_verdicts(
        self, step: int, groups: Sequence[GradedGroup], composition: Composition
    ) -> None:
        """Stop when too many verdicts are missing, with the evidence on disk."""
        verdicts = [verdict for group in groups for verdict in group.verdicts]
        try:
            require_verdicts(verdicts, self._config.verifier.pool, f"step {step}")
        except VerifierError:
            await self._record_rollouts(step, composition)
            await self._finish_recording()
            raise

    async def _finish_recording(self) -> None:
        if self._recording is not None:
            await self._recording

    async def _update(self, batch: TrainBatch) -> dict[str, float]:
        """Learn, publish, and say how it went; the version stays with nothing to train on."""
        if batch.rows == 0:
            return {}
        learned = await self._ports.learner.update(batch)
        self._recorder.skipped(batch.step, learned.refusals)
        self._version += 1
        return update_metrics(Update(learned, *await self._sync()))

    async def _sync(self) -> tuple[WeightSnapshot, LoadReport]:
        """Give every engine the learner's weights; each proves that it has them.

        Weights that are gone with a lost learner are published again by the new one.
        """
        for _ in range(SYNC_ATTEMPTS):
            snapshot = await self._ports.learner.publish(self._version)
            loading, sending = self._ports.rollouts.load(snapshot), self._ports.learner.send()
            try:
                loaded, _ = await asyncio.gather(loading, sending)
            except WeightsLost as loss:
                self._recorder.event("weights_lost", version=self._version, reason=in_short(loss))
            else:
                return snapshot, loaded
        raise SyncError(
            f"version {self._version} was published {SYNC_ATTEMPTS} times and lost every time",
            "published weights that stay until all engines have them",
            "see the learners' logs and the room in Ray's object store",
        )

    async def _record_rollouts(self, step: int, composition: Composition) -> None:
        """Let the buffer write or release the step's rollouts, beside the next step."""
        await self._finish_recording()
        buffer, path = self._ports.buffer, self._recorder.run.rollouts(step)
        if self._config.telemetry.rollouts == "all":
            work = buffer.record(step, path, composition.advantages, composition.fates)
        else:
            work = buffer.release(step)
        self._recording = asyncio.ensure_future(work)

    async def _finish_step(self, step: int, record: dict[str, float], timer: StepTimer) -> None:
        """Evaluate if due, write the step's line, save if due, and let the other stream go on."""
        evaluation, checkpoint = self._config.evaluation, self._config.checkpoint
        if _due(step, evaluation.every_steps, self._config.steps):
            with timer.phase("evaluate"):
                record |= await self._evaluate(step)
        record |= {f"time/{name}": seconds for name, seconds in timer.seconds.items()}
        record["time/step"] = timer.step_seconds()
        record["time/idle_rollout"] = max(0.0, record["time/step"] - self._engines.read())
        self._recorder.step(with_overhead({"step": step, "version": self._version, **record}))
        await self._clock.advance(step)
        del self._positions[step]
        if self._stop.is_set() or _due(step, checkpoint.every_steps, self._config.steps):
            await self._save()
        if self._stop.is_set():
            raise Interrupted

    async def _evaluate(self, step: int) -> dict[str, float]:
        """Measure every suite under the present weights."""
        ports, seed, pool = self._ports, self._config.seed, self._config.verifier.pool
        results = [
            await evaluate(suite, ports.rollouts, ports.verdicts, seed, pool)
            for suite in self._data.suites
        ]
        return self._recorder.evaluated(step, results)

    async def _save(self) -> None:
        """Checkpoint the last finished step, once."""
        if self._saved_step == self.step:
            return
        await self._finish_recording()
        position = self._positions.get(self.step + 1, self._sampler.state())
        trigger = self._trigger.to_dict() if self._trigger else {}
        passed_over = sorted(self._quarantined)
        state = TrainingState(self.step, self._version, position, trigger, passed_over)
        await save(state, self._ports, self._recorder, self._config.checkpoint)
        self._saved_step = self.step

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        """Await `work`, or checkpoint and raise Interrupted as soon as a stop is asked for."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            stopping.cancel()
            return working.result()
        working.cancel()
        await self._save()
        raise Interrupted


def _due(step: int, every: int | None, last: int) -> bool:
    return step == last or (every is not None and step % every == 0)


def _first(errors: BaseExceptionGroup) -> BaseException:
    """The first cause of a failed task group; the rest are its consequences."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
