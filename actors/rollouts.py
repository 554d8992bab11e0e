"""All rollout workers as one: the loop's `Rollouts` port."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from actors.deadlines import all_ended, within
from actors.quarantine import Strikes, Turns
from actors.rollout_worker import TimedOut
from actors.supervision import (
    Actors,
    Role,
    Supervision,
    in_short,
    is_loss,
    require_replaceable,
)
from actors.weight_transport import engine_init
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import DeadlineError, WeightsLost
from rlvr_platform.types import FinishedGroups, LoadReport, Quarantined, Ticket, WeightSnapshot

GROUP_ALLOWANCE_S = 30.0
"""Beyond the engine's own deadline for a group, in which a living worker says that it passed."""
LOAD_PHASES = 8
"""Phases of a weight load and its proof, each with sync.timeout_s of its own."""
PUBLICATIONS = 3
"""For one new worker: each takes a learner lost at an unlucky moment."""


class RemoteRollouts:
    """All rollout workers as one; tickets are dealt round robin.

    A lost worker is replaced by one with the learner's present weights, and what it had not
    finished is generated again. A prompt over which workers are lost or time out again and again
    is given up, see `Strikes`.
    """

    def __init__(
        self,
        create: Callable[[int], Any],
        config: ExperimentConfig,
        weights: Callable[[], Awaitable[WeightSnapshot]],
        supervision: Supervision,
    ) -> None:
        """`create` makes worker i, `weights` publishes the learner's present weights."""
        self._config = config
        self._weights = weights
        self._strikes = Strikes()
        self._turns = [Turns() for _ in range(config.rollout.workers)]
        self._finished: Counter[int] = Counter()
        """Groups by worker."""
        self.roles = [
            Role(
                "rollout_worker",
                lambda i=index: [create(i)],  # type: ignore[misc]
                self._reviver(index),
                supervision,
                index,
            )
            for index in range(config.rollout.workers)
        ]

    async def start(self) -> None:
        """Start all engines; raises DeadlineError past rollout.engine.start_timeout_s."""
        await asyncio.gather(*(self._start(role.actors, role.title) for role in self.roles))

    async def connect(self, address: str, port: int) -> None:
        """Open the engines' side of the weight transport; the learners connect meanwhile."""
        await asyncio.gather(
            *(self._connect(role.actors, role.index, address, port) for role in self.roles)
        )

    async def stream(
        self, tickets: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups | Quarantined]:
        """Yield the tickets' groups as they finish, from whichever worker."""
        done: asyncio.Queue[FinishedGroups | Quarantined | Exception] = asyncio.Queue()
        count = len(self.roles)
        tasks = [
            asyncio.create_task(_hand_over(self._serve(role, tickets[i::count], temperature), done))
            for i, role in enumerate(self.roles)
        ]
        try:
            missing = len(tickets)
            while missing:
                settled = await done.get()
                if isinstance(settled, Exception):
                    raise settled
                missing -= len(settled.group_ids)
                yield settled
        finally:
            for task in tasks:
                task.cancel()

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        """Load into every engine at once. Raises SyncError, or WeightsLost: publish again."""
        limit, fix = self._load_timeout_s, "see its log; sync.timeout_s sets each phase's deadline"
        # Until the last one has ended: it may be tried again at once.
        reports = await all_ended(
            [
                role.insist(lambda actors: actors[0].load.remote(snapshot), "load", limit, fix)
                for role in self.roles
            ]
        )
        return LoadReport(
            max(report.probe_max_abs_diff for report in reports),
            max(report.seconds for report in reports),
        )

    async def _serve(
        self, role: Role, share: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups | Quarantined]:
        """One worker's groups, whatever happens to the worker."""
        waiting = {ticket.group_id: ticket for ticket in share}
        while waiting:
            batch = self._strikes.next_batch(list(waiting.values()))
            alone, turns = self._strikes.on_trial(batch), self._turns[role.index]
            async with turns.alone() if alone else turns.together():
                async for settled in self._try(role, batch, temperature, alone):
                    self._strikes.forget(settled.group_ids)
                    for group_id in settled.group_ids:
                        del waiting[group_id]
                    yield settled

    async def _try(
        self, role: Role, batch: Sequence[Ticket], temperature: float, alone: bool
    ) -> AsyncIterator[FinishedGroups | Quarantined]:
        """What comes of the batch. A lost worker is replaced before the turn goes to others."""
        actors, generation = await role.present()
        left = {ticket.group_id: ticket for ticket in batch}
        try:
            async for settled in self._attempt(role, actors[0], batch, temperature):
                for group_id in settled.group_ids:
                    del left[group_id]
                yield settled
        except Exception as error:
            if not is_loss(error):
                raise
            given_up = self._strikes.blame(list(left.values()), in_short(error), alone)
            # First, since nobody listens after the last group; a corpse would cost others strikes.
            await role.replace(generation, error)
            for entry in given_up:
                yield entry

    async def _attempt(
        self, role: Role, actor: Any, batch: Sequence[Ticket], temperature: float
    ) -> AsyncIterator[FinishedGroups | Quarantined]:
        """Groups as they finish. Raises DeadlineError when nothing did on this worker in all the
        time that these groups had: then it is the engine."""
        late: list[Ticket] = []
        by_id = {ticket.group_id: ticket for ticket in batch}
        stream = actor.generate.options(num_returns="streaming").remote(batch, temperature)
        finished, before = 0, self._finished[role.index]
        while finished + len(late) < len(batch):
            handle, summaries = await self._next(stream, role)
            if isinstance(summaries[0], TimedOut):
                late += [by_id[entry.group_id] for entry in summaries]
                continue
            finished += len(summaries)
            self._finished[role.index] += len(summaries)
            yield FinishedGroups(summaries, handle)
        if late and self._finished[role.index] == before:
            raise DeadlineError(f"{role.title} finished none of {len(batch)} groups in time")
        for given_up in self._strikes.blame(late, "it did not finish in time", alone=True):
            yield given_up

    async def _next(self, stream: Any, role: Role) -> tuple[Any, Any]:
        """The worker's next message; raises the worker's error that comes in its place."""
        limit = self._config.rollout.group_timeout_s + GROUP_ALLOWANCE_S

        async def message() -> tuple[Any, Any]:
            handle = await anext(stream)
            async for summaries in stream:
                return handle, await summaries
            await handle  # nothing follows an error, which has come in this place
            raise RuntimeError(f"{role.title} ended in the middle of a message")

        return await within(message(), limit, f"{role.title}'s next group", "see its log")

    @property
    def _load_timeout_s(self) -> float:
        return LOAD_PHASES * self._config.sync.timeout_s

    async def _start(self, actors: Actors, title: str) -> None:
        limit = self._config.rollout.engine.start_timeout_s
        fix = "see its log; raise rollout.engine.start_timeout_s if it is just slow"
        await within(actors[0].start.remote(), limit, f"{title}'s start", fix)

    async def _connect(self, actors: Actors, index: int, address: str, port: int) -> None:
        config = self._config
        parallel = config.rollout.engine.tensor_parallel
        init = engine_init(
            config.sync.transport, address, port, index, config.rollout.workers, parallel
        )
        limit, fix = config.sync.timeout_s, "check that the nodes reach each other"
        await within(actors[0].connect.remote(init), limit, f"rollout worker {index}", fix)

    def _reviver(self, index: int) -> Callable[[Actors], Awaitable[None]]:
        async def revive(actors: Actors) -> None:
            require_replaceable(self._config, f"rollout worker {index}")
            title = f"the new rollout worker {index}"
            await self._start(actors, title)
            await self._connect(actors, index, "", 0)
            await self._give_weights(actors[0], title)

        return revive

    async def _give_weights(self, actor: Any, title: str) -> None:
        """Load the learner's present weights, published again when they are lost with it."""
        for left in reversed(range(PUBLICATIONS)):
            call = actor.load.remote(await self._weights())
            try:
                await within(call, self._load_timeout_s, f"{title}'s load", "see its log")
                return
            except WeightsLost:
                if not left:
                    raise


async def _hand_over(
    source: AsyncIterator[FinishedGroups | Quarantined],
    done: asyncio.Queue[FinishedGroups | Quarantined | Exception],
) -> None:
    """Move one worker's groups, or the error that ends them, into the queue."""
    try:
        async for settled in source:
            await done.put(settled)
    except Exception as error:  # handed to the consumer, who raises it
        await done.put(error)
