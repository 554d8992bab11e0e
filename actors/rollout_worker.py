"""The rollout worker actor: one engine."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError

from actors.engine import Engine
from actors.processes import Member
from actors.weight_proof import prove
from actors.weight_transport import updates
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.data.tokenizer import load_tokenizer
from rlvr_platform.errors import DeadlineError, SyncError, WeightsLost
from rlvr_platform.memory import children_peak_memory, peak_memory
from rlvr_platform.models.stop_tokens import stop_tokens
from rlvr_platform.types import (
    GroupSummary,
    LoadReport,
    RolloutGroup,
    Ticket,
    WeightSnapshot,
    summarise,
)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A group that the engine did not finish in time."""

    group_id: int


@ray.remote
class RolloutWorkerActor(Member):
    """One vLLM engine inside an asyncio actor; the engine batches groups continuously."""

    def __init__(self, index: int, config: ExperimentConfig, model: str) -> None:
        self._index = index
        self._config = config
        self._model = model

    async def start(self) -> None:
        """Start the engine."""
        self._tokenizer = load_tokenizer(self._model, self._config.trust_remote_code)
        stops = stop_tokens(self._model, self._tokenizer)
        self._engine = await Engine.start(self._config, self._model, stops)

    async def connect(self, transfer_init: dict[str, Any]) -> None:
        """Open the engine's side of the weight transport."""
        await self._engine.init_transfer(transfer_init)

    async def generate(
        self, tickets: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[tuple[RolloutGroup, ...] | tuple[GroupSummary | TimedOut, ...]]:
        """Yield, for the groups that finish together, their tokens and then their summaries.

        In this order, because whoever has read the summaries knows that the tokens are there.
        Groups that miss their deadline come as an empty tuple and their numbers.
        """
        running = {asyncio.create_task(self._one(t, temperature)) for t in tickets}
        try:
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                results = [task.result() for task in done]
                late = tuple(result for result in results if isinstance(result, TimedOut))
                if late:
                    yield ()
                    yield late
                finished = [result for result in results if not isinstance(result, TimedOut)]
                if finished:
                    summaries, groups = zip(*finished, strict=True)
                    yield groups
                    yield summaries
        finally:
            for task in running:
                task.cancel()

    async def _one(
        self, ticket: Ticket, temperature: float
    ) -> tuple[GroupSummary, RolloutGroup] | TimedOut:
        began = time.perf_counter()
        try:
            group = await self._engine.generate(ticket, temperature)
        except DeadlineError:
            return TimedOut(ticket.group_id)
        rows = [group.tokens[group.sibling(i)].tolist() for i in range(group.size)]
        texts = self._tokenizer.batch_decode(rows, skip_special_tokens=True)
        group = dataclasses.replace(group, texts=tuple(texts))
        return summarise(group, time.perf_counter() - began), group

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        """Load a published version and prove it.

        Raises SyncError when a phase fails, or when the engine answers with another version
        or other log-probabilities than the learner's; EngineLost; WeightsLost when the learner
        that published them is gone.
        """
        began = time.perf_counter()
        try:
            messages = updates(self._config.sync.transport, snapshot.handles, self._index)
            await self._engine.load(messages, snapshot.version)
            difference = await prove(self._engine, snapshot, self._config)
        except SyncError as error:
            who = f"rollout worker {self._index}, version {snapshot.version}"
            raise SyncError(f"{who}: {error.got}", error.wanted, error.fix) from None
        except (RayError, DeadlineError) as error:
            raise WeightsLost(f"version {snapshot.version} cannot be fetched: {error}") from None
        return LoadReport(difference, time.perf_counter() - began)

    async def peak_memory(self) -> dict[str, int]:
        """Peak resident bytes of this process and of the engine's processes."""
        return {"rollout_worker": peak_memory(), "engine": children_peak_memory()}

    async def stop(self) -> None:
        """Shut the engine down, so that no process of it outlives the actor."""
        self._engine.shutdown()
