"""The central buffer answers for what it stores; its loss, at any moment, changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import ray

from actors.groups import get_groups
from actors.replay_buffer import RemoteBuffer, ReplayBufferActor, Request
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
CAPACITY = CONFIG.replay.capacity_groups
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


def graded(step: int, until: Path | None = None) -> list[GradedGroups]:
    """A step's groups, each with an object of its own in the store; there once `until` exists."""
    found = []
    for place in range(GROUPS):
        own = group(GROUPS * step + place, step)
        handle = held_back.remote(own, until) if until else ray.put((own,))
        finished = FinishedGroups((summarise(own, 0.0),), handle)
        found.append(GradedGroups(finished, (VERDICTS,)))
    return found


@ray.remote
def held_back(own: RolloutGroup, until: Path) -> tuple[RolloutGroup]:
    """The group, as soon as there is such a file."""
    while not until.exists():
        time.sleep(0.02)
    return (own,)


def kill(buffer: RemoteBuffer) -> None:
    (actor,) = buffer.role.actors
    os.kill(ray.get(actor.identify.remote(), timeout=60).own.pid, signal.SIGKILL)


class Killer:
    """Kills the buffer's process once, before a given request of a given step."""

    def __init__(self, buffer: RemoteBuffer, step: int, request: str) -> None:
        self._buffer, self._when = buffer, (step, request)

    def before(self, step: int, request: str) -> None:
        if (step, request) == self._when:
            kill(self._buffer)


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


@pytest.fixture(scope="module")
def overlapped(ray_session: None, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    supervision = Supervision(CONFIG.supervision, Events())
    port = RemoteBuffer(lambda: [ReplayBufferActor.remote(CONFIG)], CONFIG, supervision)
    return asyncio.run(overlapping(port, tmp_path_factory.mktemp("overlapped"), []))


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


async def overlapping(buffer: RemoteBuffer, folder: Path, lose: list[tuple[str, int]]) -> list[Any]:
    """Steps as a loop with a lag of 2 makes them: several are open, each a little further.

    The buffer's process is killed at the moments to `lose`. Step 2 cannot be recorded before
    step 3 is kept.
    """
    answers: list[Any] = []
    opened: dict[int, list[GradedGroups]] = {}
    recording: asyncio.Future[None] = asyncio.ensure_future(asyncio.sleep(0))

    def moment(name: str, step: int) -> None:
        if (name, step) in lose:
            kill(buffer)

    for step in range(1, STEPS + 1):
        for ahead in range(len(opened) + 1, min(step + 2, STEPS) + 1):
            await buffer.expect(ahead, [GROUPS * ahead + i for i in range(GROUPS)], False)
            opened[ahead] = graded(ahead, folder / "go" if ahead == 2 else None)
            await buffer.insert(opened[ahead].pop())
        moment("opened", step)
        taking = asyncio.ensure_future(buffer.take(step))
        await buffer.insert(opened[step].pop())
        taken, state = await taking
        moment("taken", step)
        drawn = await buffer.draw(step, step - 1, 2)
        await buffer.keep(step, [SIGNS] * GROUPS, [np.abs(SIGNS)] * GROUPS)
        moment("kept", step)
        if step == 3:
            (folder / "go").touch()
        await recording
        moment("written", step)
        path, fates = folder / f"{step}.parquet", [np.full(2, Fate.TRAINED)] * GROUPS
        recording = asyncio.ensure_future(buffer.record(step, path, [SIGNS] * GROUPS, fates))
        await asyncio.sleep(0.05)
        moment("recording", step)
        ids = [g.summary.group_id for g in taken]
        answers.append((state, ids, drawn.group_ids.tolist(), drawn.sibling.tolist()))
    await recording
    tables = [pq.read_table(folder / f"{step}.parquet").to_pylist() for step in range(1, STEPS + 1)]
    return [*answers, tables, await buffer.explain(STEPS)]


@pytest.mark.parametrize(
    "lose",
    [
        [("opened", 2), ("taken", 3)],
        [("kept", 2), ("recording", 4)],
        [("kept", 3), ("written", 3)],
    ],
    ids=str,
)
def test_with_several_steps_open_a_loss_changes_neither_answers_nor_what_is_on_disk(
    buffer: RemoteBuffer,
    overlapped: list[Any],
    events: Events,
    tmp_path: Path,
    lose: list[tuple[str, int]],
) -> None:
    answers = asyncio.run(overlapping(buffer, tmp_path, lose))
    assert str(answers) == str(overlapped)
    assert len(events.of("role_restarted")) == len(lose)


def test_what_was_let_in_once_is_let_in_again(buffer: RemoteBuffer, events: Events) -> None:
    """The buffer may be full until the answer to a `take` is known, which is big and comes late."""

    async def scenario() -> list[int]:
        await buffer.expect(1, list(range(CAPACITY)), False)
        buffer._requests.append(Request(2, buffer._requests[0].method, (2, [99], False)))
        kill(buffer)
        groups = tuple(group(i, 1) for i in range(CAPACITY))
        finished = FinishedGroups(tuple(summarise(g, 0.0) for g in groups), ray.put(groups))
        await buffer.insert(GradedGroups(finished, (VERDICTS,) * CAPACITY))
        taken, _ = await buffer.take(1)
        return [g.summary.group_id for g in taken]

    assert asyncio.run(asyncio.wait_for(scenario(), 15)) == list(range(CAPACITY))


def tracked() -> set[str]:
    """Objects that somebody in this process still refers to."""
    counts = ray._private.worker.global_worker.core_worker.get_all_reference_counts()
    return {key.decode() for key in counts}


@pytest.mark.parametrize("ending", ["release", "record"])
def test_nothing_of_a_finished_step_that_was_not_kept_stays_in_the_object_store(
    buffer: RemoteBuffer, tmp_path: Path, ending: str
) -> None:
    async def step(number: int) -> set[str]:
        await buffer.expect(number, [GROUPS * number + i for i in range(GROUPS)], False)
        handles = set()
        for groups in graded(number):
            handles.add(groups.finished.handle.hex())
            await buffer.insert(groups)
        await buffer.take(number)
        assert handles <= tracked()
        if ending == "release":
            await buffer.release(number)
        else:
            fates = [np.full(2, Fate.TRAINED)] * GROUPS
            await buffer.record(number, tmp_path / str(number), [SIGNS] * GROUPS, fates)
        return handles

    async def scenario() -> set[str]:
        past = {handle for number in (1, 2, 3) for handle in await step(number)}
        end = time.monotonic() + 10
        while past & tracked() and time.monotonic() < end:
            await asyncio.sleep(0.1)
        return past & tracked()

    assert asyncio.run(scenario()) == set()
