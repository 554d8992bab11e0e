"""All learner ranks as one: the loop's `Learner` port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from actors.deadlines import within
from actors.learner import Published, RankReport
from actors.supervision import Actors, Role, Supervision, is_loss, require_replaceable
from rlvr_platform.batching.sharding import plan_update
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError
from rlvr_platform.guards import require_finite
from rlvr_platform.types import LearnerReport, TokenSums, TrainBatch, WeightSnapshot

DEATH_NOTICE_S = 5.0
"""In which Ray says that a rank is dead, after another rank has missed it."""


class Journal:
    """What a rebuilt learner has to do again: the batches since the last checkpoint."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._batches: list[TrainBatch] = []
        self._complete = True
        self.checkpoint: Path | None = None
        """Where to begin; None: from the initial model."""

    def add(self, batch: TrainBatch) -> None:
        """Remember an update; with too many, none of them is kept."""
        if len(self._batches) == self._longest:
            self._complete = False
        self._batches = [*self._batches, batch] if self._complete else []

    def begin(self, checkpoint: Path) -> None:
        """Start anew from a checkpoint that is safe."""
        self.checkpoint, self._batches, self._complete = checkpoint, [], True

    def batches(self) -> list[TrainBatch]:
        """Raises ClusterError when there were too many to keep."""
        if not self._complete:
            raise ClusterError(
                f"the learners were lost more than {self._longest} updates after a checkpoint",
                "a checkpoint at least so often: checkpoint.every_steps",
                "`--resume` goes on from the last checkpoint; supervision.redo_steps sets how "
                "many updates are kept to be done again",
            )
        return self._batches


class RemoteLearners:
    """All ranks as one: shards the batch, counts optimizer steps, adds up the reports.

    Ranks that are lost are all replaced, load the last checkpoint and do the updates since again.
    """

    def __init__(
        self, create: Callable[[], Actors], config: ExperimentConfig, supervision: Supervision
    ) -> None:
        self._config = config
        self.role = Role("learner", create, self._revive, supervision)
        self._journal = Journal(supervision.config.redo_steps)
        self._version = 0
        # Weights are published under the version of the last finished update.
        self._in_turn = asyncio.Lock()

    async def address(self) -> tuple[str, int]:
        """Rank 0's address and a free port there."""
        return await self._address(self.role.actors)

    async def start(self) -> None:
        """Start all ranks together; raises DeadlineError past learner.start_timeout_s."""
        await self._start(self.role.actors)

    async def connect(self, address: str, port: int) -> None:
        """Open the learners' side of the weight transport; engines connect meanwhile."""
        await self._connect(self.role.actors, address, port)

    async def update(self, batch: TrainBatch) -> LearnerReport:
        """Train on the batch once; the denominators are of the whole batch."""
        async with self._in_turn:
            limit, fix = self._config.learner.update_timeout_s, _raise("update")
            results = await self.role.insist(
                lambda ranks: self._update(ranks, batch), "update", limit, fix
            )
            require_finite(_refusals(results), self._config.learner.on_non_finite)
            self._journal.add(batch)
            self._version += 1
        return self._report(results)

    def _update(self, ranks: Actors, batch: TrainBatch) -> Awaitable[list[RankReport]]:
        config, learner = self._config, self._config.learner
        plan = plan_update(
            batch,
            learner.minibatches,
            len(ranks),
            config.seed + batch.step,
            config.algorithm.normalisation,
            config.algorithm.constant_length or config.rollout.max_new_tokens,
        )
        calls = [rank.update.remote([step[r] for step in plan]) for r, rank in enumerate(ranks)]
        return together(calls)

    def _report(self, ranks: Sequence[RankReport]) -> LearnerReport:
        sums = sum((rank.sums for rank in ranks), TokenSums())
        return LearnerReport(
            loss=sums.loss,
            grad_norm=ranks[0].grad_norm,
            learning_rate=ranks[0].learning_rate,
            entropy=sums.mean("entropy"),
            kl_behaviour=sums.mean("kl_behaviour"),
            kl_reference=sums.mean("kl_reference"),
            clip_fraction=sums.mean("clipped"),
            truncated_fraction=sums.mean("truncated"),
            tokens=int(sums.tokens),
            optimizer_steps=ranks[0].optimizer_steps,
            micro_batches=ranks[0].micro_batches,
            skipped_updates=len(ranks[0].refused),
            refusals=_refusals(ranks),
            seconds=max(rank.seconds for rank in ranks),
        )

    async def publish(self, version: int) -> WeightSnapshot:
        """Make the weights available under `version`, with their probe."""
        async with self._in_turn:
            self._version = version
            return await self._publish()

    async def republish(self) -> WeightSnapshot:
        """The present weights once more, for an engine that has none."""
        async with self._in_turn:
            return await self._publish()

    async def _publish(self) -> WeightSnapshot:
        def ask(actors: Actors) -> Awaitable[tuple[list[Published], Any]]:
            calls = [rank.publish.remote() for rank in actors]
            # Collective, so every rank is asked; they answer while the engines load.
            probes = [rank.probe.remote() for rank in actors]
            return _with_probe(calls, probes[0])

        limit = self._config.sync.timeout_s
        ranks, probe = await self.role.insist(ask, "publish", limit, "raise sync.timeout_s")
        return WeightSnapshot(
            version=self._version,
            handles=tuple(rank.handle for rank in ranks),
            nbytes=ranks[0].nbytes,
            probe_tokens=ranks[0].probe_tokens,
            probe_logprobs=probe,
            seconds=max(rank.seconds for rank in ranks),
        )

    async def send(self) -> None:
        """Take part while the engines load, where the transport needs it."""
        if self._config.sync.transport != "nccl":
            return
        calls = together([rank.send.remote() for rank in self.role.actors])
        await within(calls, self._config.sync.timeout_s, "the learners sending", "")

    async def save(self, folder: Path) -> None:
        async with self._in_turn:
            await self._all("save", str(folder))

    async def load(self, folder: Path) -> None:
        self._journal.begin(folder)
        await self._all("load", str(folder))

    def saved(self, checkpoint: Path) -> None:
        """The checkpoint is safe: from here on, it is where a rebuilt learner begins."""
        self._journal.begin(checkpoint)

    async def _all(self, method: str, *arguments: Any) -> list[Any]:
        def ask(actors: Actors) -> Awaitable[list[Any]]:
            return together([getattr(rank, method).remote(*arguments) for rank in actors])

        limit = self._config.learner.update_timeout_s
        return await self.role.insist(ask, method, limit, _raise("update"))

    async def _address(self, ranks: Actors) -> tuple[str, int]:
        limit, who = self._config.learner.start_timeout_s, "learner rank 0's process"
        address, port = await within(ranks[0].address.remote(), limit, who, _raise("start"))
        return address, port

    async def _start(self, ranks: Actors) -> None:
        address, port = await self._address(ranks)
        starts = together([rank.start.remote(address, port) for rank in ranks])
        limit = self._config.learner.start_timeout_s
        await within(starts, limit, "the learners' start", _raise("start"))

    async def _connect(self, ranks: Actors, address: str, port: int) -> None:
        rollout = self._config.rollout
        engines = rollout.workers * rollout.engine.tensor_parallel
        calls = together([rank.connect.remote(address, port, engines) for rank in ranks])
        limit = self._config.sync.timeout_s
        await within(calls, limit, "the learners' transport", "see the learners' logs")

    async def _revive(self, ranks: Actors) -> None:
        """Load the last checkpoint and do the updates since again."""
        require_replaceable(self._config, "a learner rank")
        limit, journal = self._config.learner.update_timeout_s, self._journal
        batches = journal.batches()
        await self._start(ranks)
        await self._connect(ranks, "", 0)
        if journal.checkpoint is not None:
            loads = together([rank.load.remote(str(journal.checkpoint)) for rank in ranks])
            await within(loads, limit, "the new learners' load", _raise("update"))
        for batch in batches:
            redo = self._update(ranks, batch)
            await within(redo, limit, f"step {batch.step}'s update once more", _raise("update"))


def _refusals(ranks: Sequence[RankReport]) -> tuple[str, ...]:
    """What was not finite, rank by rank."""
    return tuple(
        f"learner rank {r}: {text}" for r, rank in enumerate(ranks) for text in rank.refused if text
    )


async def together(calls: Sequence[Any]) -> list[Any]:
    """The results of a collective call, or what failed it.

    When one rank dies, the others may be first to say that they miss it: the death counts.
    """
    pending = [asyncio.ensure_future(_result(call)) for call in calls]
    try:
        done, waiting = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        if any(task.exception() for task in done) and waiting:
            await asyncio.wait(waiting, timeout=DEATH_NOTICE_S)
        errors = [task.exception() for task in pending if task.done() and task.exception()]
    finally:
        for task in pending:
            task.cancel()
    for error in sorted(filter(None, errors), key=lambda error: not is_loss(error)):
        raise error
    return [task.result() for task in pending]


async def _result(call: Any) -> Any:
    return await call


async def _with_probe(calls: Sequence[Any], probe: Any) -> tuple[list[Published], Any]:
    return await together(calls), probe


def _raise(phase: str) -> str:
    return f"see the learners' logs; raise learner.{phase}_timeout_s if they are just slow"
