"""Workers die and hang over some prompts: exactly these are given up, all others come back once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from actors.processes import Member
from actors.rollout_worker import TimedOut
from actors.rollouts import RemoteRollouts
from actors.supervision import Supervision
from rlvr_platform.config import ExperimentConfig
from rlvr_platform.config.supervision import SupervisionConfig
from rlvr_platform.errors import WeightsLost
from rlvr_platform.types import (
    GroupSummary,
    LoadReport,
    Prompt,
    Quarantined,
    Ticket,
    WeightSnapshot,
)
from tests.actors.conftest import Events

SOON, LATER = 0.05, 0.4


@dataclass(frozen=True)
class Trouble:
    """What the worker does over which prompts."""

    dies: frozenset[int] = frozenset()
    hangs: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()
    loses: frozenset[int] = frozenset()
    """Versions whose weights are gone."""


@ray.remote
class Worker(Member):
    """Speaks a rollout worker's protocol, without an engine; what it finishes has no tokens."""

    def __init__(self, index: int, trouble: Trouble, folder: Path) -> None:
        self._index, self._trouble, self._folder = index, trouble, folder

    async def start(self) -> None: ...

    async def connect(self, transfer_init: dict[str, Any]) -> None: ...

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        if self._index == 0 and snapshot.version in self._trouble.loses:
            raise WeightsLost(f"version {snapshot.version} is gone")
        await asyncio.sleep(LATER)
        (self._folder / f"loaded-{self._index}").touch()
        return LoadReport(0.0, 0.0)

    async def generate(self, tickets: Sequence[Ticket], temperature: float) -> AsyncIterator[Any]:
        for done in asyncio.as_completed([self._one(ticket) for ticket in tickets]):
            group, summary = await done
            yield group
            yield summary

    async def _one(self, ticket: Ticket) -> tuple[Any, Any]:
        prompt, trouble = ticket.prompt.index, self._trouble
        await asyncio.sleep(2 * LATER if prompt in trouble.slow else SOON)
        if prompt in trouble.dies:
            await asyncio.sleep(LATER)
            os._exit(1)
        if prompt in trouble.hangs:
            await asyncio.sleep(LATER)
            return (), (TimedOut(ticket.group_id),)
        row = np.zeros(2, np.int32)
        summary = GroupSummary(ticket.group_id, 1, prompt, 2, row, row, row, row, 0.0, 0)
        return (ticket.group_id,), (summary,)


def ticket(prompt: int, group_id: int | None = None) -> Ticket:
    own = Prompt(prompt, "", np.zeros(2, np.int32), "", "test")
    return Ticket(prompt if group_id is None else group_id, 1, own, 2, 0)


Make = Callable[..., RemoteRollouts]


@pytest.fixture
def make(
    ray_session: None, config: ExperimentConfig, events: Events, tmp_path: Path
) -> Iterator[Make]:
    made = []
    often = Supervision(SupervisionConfig(backoff_s=0, restarts=20), events)

    def port(trouble: Trouble, workers: int = 1, versions: Sequence[int] = (0,) * 20) -> Any:
        own = config.model_copy(
            update={"rollout": config.rollout.model_copy(update={"workers": workers})}
        )
        published = iter(versions)

        async def weights() -> WeightSnapshot:
            return snapshot(next(published))

        create = lambda index: Worker.remote(index, trouble, tmp_path)  # noqa: E731
        made.append(RemoteRollouts(create, own, weights, often))
        return made[-1]

    yield port
    for each in made:
        for role in each.roles:
            asyncio.run(role.end())


def snapshot(version: int) -> WeightSnapshot:
    return WeightSnapshot(version, (), 0, np.zeros(1, np.int32), None, 0.0)


async def settle(
    rollouts: RemoteRollouts, tickets: Sequence[Ticket]
) -> tuple[list[int], dict[int, str]]:
    """Group ids that came back, and prompts that were given up with the reason."""
    finished, given_up = [], {}
    async for settled in rollouts.stream(tickets, 1.0):
        if isinstance(settled, Quarantined):
            given_up[settled.ticket.prompt.index] = settled.reason
        else:
            assert tuple(await settled.handle) == settled.group_ids
            finished += settled.group_ids
    return sorted(finished), given_up


def test_exactly_the_prompts_that_kill_are_given_up(make: Make, events: Events) -> None:
    rollouts = make(Trouble(dies=frozenset({2, 6})))
    tickets = [ticket(i) for i in range(8)]
    finished, given_up = asyncio.run(settle(rollouts, tickets))
    assert set(given_up) == {2, 6}
    assert finished == [i for i in range(8) if i not in given_up]
    assert all("died" in reason for reason in given_up.values())
    assert len(events.of("role_restarted")) <= 2 + 2


def test_a_prompt_that_never_finishes_is_given_up_and_takes_no_other_group_along(
    make: Make, events: Events
) -> None:
    rollouts = make(Trouble(hangs=frozenset({1}), slow=frozenset({5})))

    async def both() -> list[Any]:
        return await asyncio.gather(
            settle(rollouts, [ticket(1), ticket(2), ticket(3)]),
            settle(rollouts, [ticket(5)]),
        )

    assert asyncio.run(both()) == [
        ([2, 3], {1: "rollout worker 0 finished none of 1 groups in time"}),
        ([5], {}),
    ]
    assert len(events.of("role_restarted")) <= 1


def test_whoever_is_on_a_worker_when_another_prompt_kills_it_is_not_blamed(make: Make) -> None:
    """Steps overlap, and so do a step's tickets and those that replace given-up ones."""
    rollouts = make(Trouble(dies=frozenset({1}), slow=frozenset({8, 9})))

    async def overlapping() -> list[Any]:
        return await asyncio.gather(
            settle(rollouts, [ticket(1), ticket(2)]),
            settle(rollouts, [ticket(8)]),
            settle(rollouts, [ticket(9)]),
        )

    (finished, given_up), *others = asyncio.run(overlapping())
    assert (finished, set(given_up)) == ([2], {1})
    assert others == [([8], {}), ([9], {})]


def test_weights_that_are_lost_on_the_way_to_a_new_worker_are_published_again(
    make: Make, events: Events
) -> None:
    """Engine and learner died together."""
    rollouts = make(
        Trouble(dies=frozenset({1}), loses=frozenset({6})), versions=[6, 6, 7, *[7] * 9]
    )
    finished, given_up = asyncio.run(settle(rollouts, [ticket(1), ticket(2)]))
    assert (finished, set(given_up)) == ([2], {1})


def test_a_load_that_fails_leaves_no_engine_loading(make: Make, tmp_path: Path) -> None:
    """It is tried again at once: no engine may be in two loads."""
    rollouts = make(Trouble(loses=frozenset({3})), workers=2)

    async def scenario() -> None:
        await asyncio.gather(*(role.identify() for role in rollouts.roles))
        with pytest.raises(WeightsLost):
            await rollouts.load(snapshot(3))
        assert (tmp_path / "loaded-1").exists()

    asyncio.run(scenario())
