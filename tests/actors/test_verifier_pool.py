"""The pool as an actor, and what is left of a step's verdicts when processes are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from actors.supervision import Supervision
from actors.verifier_pool import GRADE_ATTEMPTS, RemoteVerdicts, VerifierPoolActor
from rlvr_platform.config.supervision import SupervisionConfig
from rlvr_platform.config.verifier import PoolConfig, VerifierConfig
from rlvr_platform.config.verifiers_more import ExactVerifier
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import (
    FinishedGroups,
    GradedGroups,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    summarise,
)
from tests.actors.conftest import Events

CONFIG = VerifierConfig(use=ExactVerifier(), pool=PoolConfig(workers=2))


def finished(group_id: int, size: int) -> FinishedGroups:
    """A group whose siblings answer 0, 1, 2, ... to a question whose answer is the group's id."""
    prompt = Prompt(group_id, "?", np.zeros(1, np.int32), str(group_id), "test")
    group = RolloutGroup(
        ticket=Ticket(group_id, 1, prompt, size, 0),
        tokens=np.zeros(size, np.int32),
        offsets=np.arange(size + 1, dtype=np.int64),
        loss_mask=np.ones(size, bool),
        logprobs=np.zeros(size, np.float32),
        versions=np.zeros(size, np.int32),
        finish=np.zeros(size, np.uint8),
        texts=tuple(str(i) for i in range(size)),
    )
    return FinishedGroups((summarise(group, 1.0),), ray.put((group,)))


def check(graded: list[GradedGroups], size: int) -> None:
    """Every rollout has its one right verdict."""
    for groups in graded:
        (verdicts,) = groups.verdicts
        answer = groups.finished.summaries[0].group_id
        assert [v.extracted for v in verdicts] == [str(i) for i in range(size)]
        expected = [Outcome.CORRECT if i == answer else Outcome.WRONG for i in range(size)]
        assert [v.outcome for v in verdicts] == expected


def children(pid: int) -> list[int]:
    return [
        int(n) for f in Path(f"/proc/{pid}/task").glob("*/children") for n in f.read_text().split()
    ]


def process_of(verdicts: RemoteVerdicts) -> int:
    (actor,) = verdicts.role.actors
    return int(ray.get(actor.identify.remote(), timeout=60).own.pid)


@pytest.fixture
def verdicts(ray_session: None, supervision: Supervision) -> Iterator[RemoteVerdicts]:
    port = RemoteVerdicts(lambda: [VerifierPoolActor.remote(CONFIG)], CONFIG, supervision)
    asyncio.run(port.start())
    yield port
    for actor in port.role.actors:
        ray.kill(actor)


async def grade_and_kill(
    verdicts: RemoteVerdicts, groups: list[FinishedGroups], kill: Callable[[], None]
) -> list[GradedGroups]:
    """Grade all groups at once, and kill when the first has its verdicts."""
    tasks = [asyncio.ensure_future(verdicts.grade(group)) for group in groups]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert not all(task.done() for task in tasks)
    kill()
    return await asyncio.gather(*tasks)


def test_a_killed_actor_costs_no_rollout_its_verdict(
    verdicts: RemoteVerdicts, events: Events
) -> None:
    process = process_of(verdicts)
    groups = [finished(i, 400) for i in range(30)]
    before = children(process)

    graded = asyncio.run(grade_and_kill(verdicts, groups, lambda: os.kill(process, signal.SIGKILL)))
    check(graded, 400)
    (event,) = events.of("role_restarted")
    assert event["pid"] == process_of(verdicts) != process
    assert before
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in before):
        assert time.monotonic() < end, "the fork server of the killed actor lives on"
        time.sleep(0.05)


def test_killed_processes_of_the_pool_cost_nothing_and_need_no_restart(
    verdicts: RemoteVerdicts, events: Events
) -> None:
    process = process_of(verdicts)
    groups = [finished(i, 400) for i in range(30)]

    def kill() -> None:
        (fork_server,) = children(process)
        os.kill(children(fork_server)[0], signal.SIGKILL)
        os.kill(fork_server, signal.SIGKILL)

    check(asyncio.run(grade_and_kill(verdicts, groups, kill)), 400)
    assert events == []


def test_an_actor_that_dies_again_and_again_ends_the_run_in_plain_words(ray_session: None) -> None:
    killed = []

    def kill(kind: str, **fields: Any) -> None:
        killed.append(fields["pid"])
        os.kill(fields["pid"], signal.SIGKILL)

    supervision = Supervision(SupervisionConfig(backoff_s=0), kill)
    port = RemoteVerdicts(lambda: [VerifierPoolActor.remote(CONFIG)], CONFIG, supervision)
    asyncio.run(port.start())
    os.kill(process_of(port), signal.SIGKILL)
    with pytest.raises(VerifierError, match=f"lost {GRADE_ATTEMPTS} times while grading group 7"):
        asyncio.run(port.grade(finished(7, 10)))
    assert len(set(killed)) == GRADE_ATTEMPTS
