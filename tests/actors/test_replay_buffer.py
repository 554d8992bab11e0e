"""The central buffer answers for what it stores; its loss, at any moment, changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from actors.groups import get_groups
from actors.replay_buffer import RemoteBuffer, ReplayBufferActor
from actors.supervision import Supervision
from rlvr_platform.config import load_config
from rlvr_platform.types import (
    Fate,
    FinishedGroups,
    GradedGroups,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)
from tests.actors.conftest import Events

CONFIG = load_config(
    Path(__file__).parents[2] / "configs/dev/replay.yaml",
    ["replay.reuse.start_step=2", "replay.reuse.max_age=2"],
)
VERDICTS = tuple(Verdict(Outcome.CORRECT, float(i == 0), "", "", 0.0) for i in range(2))
SIGNS = np.array([1.0, -1.0])
STEPS, GROUPS = 5, 2
REQUESTS = ("expect", "insert", "take", "draw", "keep", "record")


def group(group_id: int, step: int) -> RolloutGroup:
    prompt = Prompt(group_id, "1+1=", np.arange(3, dtype=np.int32), "2", "train")
    return RolloutGroup(
        ticket=Ticket(group_id, step, prompt, 2, 0),
        tokens=np.full(4, group_id, np.int32),
        offsets=np.array([0, 2, 4]),
        loss_mask=np.ones(4, bool),
        logprobs=np.zeros(4, np.float32),
        versions=np.full(4, step - 1, np.int32),
        finish=np.zeros(2, np.uint8),
        texts=("2", "3"),
    )


def graded(step: int) -> list[GradedGroups]:
    """A step's groups, each with an object of its own in the store."""
    found = []
    for place in range(GROUPS):
        own = group(GROUPS * step + place, step)
        finished = FinishedGroups((summarise(own, 0.0),), ray.put((own,)))
        found.append(GradedGroups(finished, (VERDICTS,)))
    return found


class Killer:
    """Kills the buffer's process once, before a given request of a given step."""

    def __init__(self, buffer: RemoteBuffer, step: int, request: str) -> None:
        self._buffer, self._when = buffer, (step, request)

    def before(self, step: int, request: str) -> None:
        if (step, request) == self._when:
            (actor,) = self._buffer.role.actors
            os.kill(ray.get(actor.identify.remote(), timeout=60).own.pid, signal.SIGKILL)


async def run(buffer: RemoteBuffer, killer: Killer, folder: Path) -> list[Any]:
    """A few steps as the loop makes them; returns all that the buffer answered."""
    answers: list[Any] = []
    for step in range(1, STEPS + 1):
        killer.before(step, "expect")
        await buffer.expect(step, [GROUPS * step + i for i in range(GROUPS)], False)
        for number, groups in enumerate(graded(step)):
            if number == 1:
                killer.before(step, "insert")
            await buffer.insert(groups)
        killer.before(step, "take")
        taken, state = await buffer.take(step)
        killer.before(step, "draw")
        drawn = await buffer.draw(step, step - 1, 2)
        killer.before(step, "keep")
        await buffer.keep(step, [SIGNS] * GROUPS, [np.abs(SIGNS)] * GROUPS)
        killer.before(step, "record")
        fates = [np.full(2, Fate.TRAINED)] * GROUPS
        await buffer.record(step, folder / f"step-{step:06d}.parquet", [SIGNS] * GROUPS, fates)
        handles = [g.handle for g in taken] + list(drawn.handles)
        tokens = [int(found.tokens[0]) for found in get_groups(handles)]
        answers.append((state, tokens, drawn.sibling.tolist(), drawn.probability.tolist()))
    return [*answers, await buffer.explain(STEPS)]


@pytest.fixture
def buffer(ray_session: None, supervision: Supervision) -> Iterator[RemoteBuffer]:
    port = RemoteBuffer(lambda: [ReplayBufferActor.remote(CONFIG)], CONFIG, supervision)
    yield port
    for actor in port.role.actors:
        ray.kill(actor)


@pytest.fixture(scope="module")
def expected(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    supervision = Supervision(CONFIG.supervision, Events())
    port = RemoteBuffer(lambda: [ReplayBufferActor.remote(CONFIG)], CONFIG, supervision)
    return asyncio.run(run(port, Killer(port, 0, ""), tmp_path_factory.mktemp("rollouts")))


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_buffer_that_is_lost_answers_as_if_nothing_had_happened(
    buffer: RemoteBuffer,
    expected: list[Any],
    events: Events,
    tmp_path: Path,
    request_: str,
) -> None:
    answers = asyncio.run(run(buffer, Killer(buffer, 4, request_), tmp_path))
    assert answers == expected
    assert any(drawn for _, _, drawn, _ in answers[:-1])
    assert [event["role"] for event in events.of("role_restarted")] == ["replay_buffer"]
    assert len(list(tmp_path.glob("*.parquet"))) == STEPS


def test_a_new_buffer_that_loads_what_was_saved_draws_the_same(
    buffer: RemoteBuffer, supervision: Supervision, tmp_path: Path
) -> None:
    asyncio.run(run(buffer, Killer(buffer, 0, ""), tmp_path))
    told = asyncio.run(buffer.explain(STEPS))
    assert told["rollouts"] > 0
    assert {entry["group_id"] // GROUPS for entry in told["most_likely"]} <= set(
        range(3, STEPS + 1)
    )
    other = RemoteBuffer(lambda: [ReplayBufferActor.remote(CONFIG)], CONFIG, supervision)
    asyncio.run(buffer.save(tmp_path))
    asyncio.run(other.load(tmp_path))
    again = asyncio.run(other.explain(STEPS))
    assert {**again, "last_evicted": None} == {**told, "last_evicted": None}
    draws = [asyncio.run(port.draw(STEPS + 1, STEPS, 3)) for port in (buffer, other)]
    assert draws[0].sibling.tolist() == draws[1].sibling.tolist()
    tokens = [[g.tokens.tolist() for g in get_groups(draw.handles)] for draw in draws]
    assert tokens[0] == tokens[1]
    for actor in other.role.actors:
        ray.kill(actor)
