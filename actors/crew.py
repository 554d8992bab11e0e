"""All actors of a run behind their ports: created, started, watched, measured and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any

from actors.allocator import AllocatorActor, RemoteAllocator
from actors.deadlines import within
from actors.engine import engine_environment
from actors.learner import LearnerActor
from actors.learners import RemoteLearners
from actors.placement import Placement
from actors.replay_buffer import RemoteBuffer, ReplayBufferActor
from actors.rollout_worker import RolloutWorkerActor
from actors.rollouts import RemoteRollouts
from actors.supervision import Actors, Role, Supervision, watch
from actors.verifier_pool import RemoteVerdicts, VerifierPoolActor
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.memory import peak_memory
from rlvr_platform.ports import Ports
from rlvr_platform.preparation import Prepared
from rlvr_platform.runtime import thread_environment

STOP_DEADLINE_S = 30.0


async def _up(start: Awaitable[None], roles: Sequence[Role]) -> None:
    """Start roles, and write down how long that took them."""
    await start
    await asyncio.gather(*(role.started() for role in roles))


def _make(actor: Any, options: dict[str, Any], *arguments: Any) -> Any:
    return actor.options(**options).remote(*arguments)


class Castings:
    """How each actor is made and where it goes; used again whenever one is replaced."""

    def __init__(
        self, config: ExperimentConfig, model: str, placement: Placement, offending: Path
    ) -> None:
        """`offending`: where learners save rows whose update is not finite."""
        self._config, self._model, self._placement = config, model, placement
        self._offending = offending

    def rollout_worker(self, index: int) -> Any:
        wanted = self._placement.demand
        bundle, env = wanted.worker_bundle[index], engine_environment(self._config)
        options = self._placement.options(bundle, gpus=wanted.gpus_per_worker, env=env)
        return _make(RolloutWorkerActor, options, index, self._config, self._model)

    def learners(self) -> Actors:
        wanted, env = self._placement.demand, thread_environment(self._config.learner.threads)
        every = [
            self._placement.options(bundle, gpus=wanted.gpus_per_learner, env=env)
            for bundle in wanted.learner_bundle
        ]
        return [
            _make(LearnerActor, options, rank, self._config, self._model, self._offending)
            for rank, options in enumerate(every)
        ]

    def verifier_pool(self) -> Actors:
        options = self._placement.options(self._services)
        return [_make(VerifierPoolActor, options, self._config.verifier)]

    def replay_buffer(self) -> Actors:
        options = self._placement.options(self._services, cpus=0)
        return [_make(ReplayBufferActor, options, self._config)]

    def allocator(self) -> Actors:
        options = self._placement.options(self._services, cpus=0, env=thread_environment(1))
        return [_make(AllocatorActor, options, self._config, self._model)]

    @property
    def _services(self) -> int:
        return self._placement.demand.services_bundle


class Crew:
    """The actors of one run. None has started its heavy part before `start`."""

    def __init__(
        self,
        config: ExperimentConfig,
        prepared: Prepared,
        placement: Placement,
        supervision: Supervision,
        offending: Path,
    ) -> None:
        make = Castings(config, prepared.model, placement, offending)
        self._config = config
        self._supervision = supervision
        self.learner = RemoteLearners(make.learners, config, supervision)
        self.rollouts = RemoteRollouts(
            make.rollout_worker, config, self.learner.republish, supervision
        )
        self.verdicts = RemoteVerdicts(make.verifier_pool, config.verifier, supervision)
        self.buffer = RemoteBuffer(make.replay_buffer, config, supervision)
        self.allocator = RemoteAllocator(make.allocator, prepared.data.prompts, supervision)

    @property
    def ports(self) -> Ports:
        return Ports(self.rollouts, self.verdicts, self.buffer, self.allocator, self.learner)

    @property
    def roles(self) -> list[Role]:
        single = (self.learner, self.verdicts, self.buffer, self.allocator)
        return [*self.rollouts.roles, *(port.role for port in single)]

    async def start(self) -> None:
        """Start everything side by side, each with its own deadline."""
        # Known from the first moment on, so that one that is stuck in its start is ended too.
        await asyncio.gather(*(role.identify() for role in self.roles))
        single = (self.learner, self.verdicts, self.allocator)
        await asyncio.gather(
            _up(self.rollouts.start(), self.rollouts.roles),
            *(_up(port.start(), [port.role]) for port in single),
            self.buffer.role.started(),
        )
        await self._connect()

    async def _connect(self) -> None:
        """Open both sides of the weight transport at the same time: each waits for the other."""
        address, port = await self.learner.address()
        both = asyncio.gather(
            self.learner.connect(address, port), self.rollouts.connect(address, port)
        )
        transport, limit = self._config.sync.transport, self._config.sync.timeout_s
        fix = "check that the nodes reach each other; sync.timeout_s sets the deadline"
        await within(both, limit, f"the {transport} weight transport", fix)

    async def watch(self) -> None:
        """Write down every stall, until cancelled."""
        await watch(self.roles, self._supervision.config.patience_s, self._supervision.events)

    async def peak_memories(self) -> dict[str, int]:
        """Peak resident bytes by role; the largest of each kind."""
        peaks = {"controller": peak_memory()}
        for role in self.roles:
            answers = await asyncio.gather(*(a.peak_memory.remote() for a in role.actors))
            for answer in answers:
                for name, size in answer.items():
                    peaks[name] = max(size, peaks.get(name, 0))
        return peaks

    async def stop(self) -> None:
        """End what actors started themselves, then the actors."""
        for role in self.roles:
            role.retire()
        actors = [
            actor for role in (*self.rollouts.roles, self.verdicts.role) for actor in role.actors
        ]
        calls = asyncio.gather(*(actor.stop.remote() for actor in actors), return_exceptions=True)
        try:
            await asyncio.wait_for(calls, STOP_DEADLINE_S)
        except TimeoutError:
            print(f"actors did not stop within {STOP_DEADLINE_S:g} s; they are killed now")
        await asyncio.gather(*(role.end() for role in self.roles))
