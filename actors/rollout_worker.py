"""The rollout worker actor, and all of them as the loop's `Rollouts` port."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import ray

from actors.deadlines import within
from actors.engine import Engine
from actors.weight_proof import prove
from actors.weight_transport import updates
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.data.tokenizer import load_tokenizer
from rlvr_platform.errors import SyncError
from rlvr_platform.memory import children_peak_memory, peak_memory
from rlvr_platform.models.stop_tokens import stop_tokens
from rlvr_platform.types import (
    FinishedGroups,
    GroupSummary,
    LoadReport,
    RolloutGroup,
    Ticket,
    WeightSnapshot,
    summarise,
)


@ray.remote
class RolloutWorkerActor:
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
    ) -> AsyncIterator[tuple[GroupSummary, ...] | tuple[RolloutGroup, ...]]:
        """Yield, for the groups that finish together, their summaries and then their tokens."""
        running = {asyncio.create_task(self._one(t, temperature)) for t in tickets}
        try:
            while running:
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                summaries, groups = zip(*(task.result() for task in done), strict=True)
                yield summaries
                yield groups
        finally:
            for task in running:
                task.cancel()

    async def _one(self, ticket: Ticket, temperature: float) -> tuple[GroupSummary, RolloutGroup]:
        began = time.perf_counter()
        group = await self._engine.generate(ticket, temperature)
        rows = [group.tokens[group.sibling(i)].tolist() for i in range(group.size)]
        texts = self._tokenizer.batch_decode(rows, skip_special_tokens=True)
        group = dataclasses.replace(group, texts=tuple(texts))
        return summarise(group, time.perf_counter() - began), group

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        """Load a published version and prove it.

        Raises SyncError when a phase fails, or when the engine answers with another version
        or other log-probabilities than the learner's.
        """
        began = time.perf_counter()
        try:
            messages = updates(self._config.sync.transport, snapshot.handles, self._index)
            await self._engine.load(messages, snapshot.version)
            difference = await prove(self._engine, snapshot, self._config)
        except SyncError as error:
            who = f"rollout worker {self._index}, version {snapshot.version}"
            raise SyncError(f"{who}: {error.got}", error.wanted, error.fix) from None
        return LoadReport(difference, time.perf_counter() - began)

    async def peak_memory(self) -> tuple[int, int]:
        """Peak resident bytes of this process and of the engine's processes."""
        return peak_memory(), children_peak_memory()

    async def stop(self) -> None:
        """Shut the engine down, so that no process of it outlives the actor."""
        self._engine.shutdown()


class RemoteRollouts:
    """All rollout workers as one; tickets are dealt round robin."""

    def __init__(self, workers: Sequence[Any], load_timeout_s: float) -> None:
        self._workers = list(workers)
        self._load_timeout_s = load_timeout_s

    async def stream(
        self, tickets: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups]:
        """Yield the tickets' groups as they finish, from whichever worker."""
        done: asyncio.Queue[FinishedGroups | Exception] = asyncio.Queue()
        tasks = [
            asyncio.create_task(_drain(worker, tickets[i :: len(self._workers)], temperature, done))
            for i, worker in enumerate(self._workers)
        ]
        try:
            missing = len(tickets)
            while missing:
                groups = await done.get()
                if isinstance(groups, Exception):
                    raise groups
                missing -= len(groups.summaries)
                yield groups
        finally:
            for task in tasks:
                task.cancel()

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        """Load into every engine at once."""
        loading = asyncio.gather(*(w.load.remote(snapshot) for w in self._workers))
        fix = "see the rollout workers' logs; sync.timeout_s sets the deadline of each phase"
        reports = await within(loading, self._load_timeout_s, "the engines loading weights", fix)
        return LoadReport(
            max(report.probe_max_abs_diff for report in reports),
            max(report.seconds for report in reports),
        )


async def _drain(
    worker: Any,
    tickets: Sequence[Ticket],
    temperature: float,
    done: asyncio.Queue[FinishedGroups | Exception],
) -> None:
    """Move one worker's groups, or the error that ends them, into the queue."""
    try:
        stream = worker.generate.options(num_returns="streaming").remote(tickets, temperature)
        async for first in stream:
            # An error of the worker arrives in this place, and nothing follows it.
            summaries = await first
            await done.put(FinishedGroups(summaries, await anext(stream)))
    except Exception as error:  # handed to the consumer, who raises it
        await done.put(error)
