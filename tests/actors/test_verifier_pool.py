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

from actors.verifier_pool import GRADE_ATTEMPTS, RemoteVerdicts, VerifierPoolActor
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


@pytest.fixture
def actor(ray_session: None) -> Iterator[Any]:
    actor = VerifierPoolActor.options(num_cpus=1, runtime_env={"env_vars": {}}).remote(CONFIG)
    yield actor
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


def test_a_killed_actor_costs_no_rollout_its_verdict(actor: Any) -> None:
    process, events = ray.get(actor.start.remote(), timeout=60), []
    verdicts = RemoteVerdicts(actor, CONFIG, lambda kind, **fields: events.append((kind, fields)))
    groups = [finished(i, 400) for i in range(30)]
    before = children(process)

    graded = asyncio.run(grade_and_kill(verdicts, groups, lambda: os.kill(process, signal.SIGKILL)))
    check(graded, 400)
    ((kind, fields),) = events
    assert kind == "verifier_pool_restarted"
    assert fields["process"] != process
    assert fields["process"] == ray.get(actor.start.remote(), timeout=60)
    assert before
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in before):
        assert time.monotonic() < end, "the fork server of the killed actor lives on"
        time.sleep(0.05)


def test_killed_processes_of_the_pool_cost_nothing_and_need_no_restart(actor: Any) -> None:
    process, events = ray.get(actor.start.remote(), timeout=60), []
    verdicts = RemoteVerdicts(actor, CONFIG, lambda kind, **_: events.append(kind))
    groups = [finished(i, 400) for i in range(30)]

    def kill() -> None:
        (fork_server,) = children(process)
        os.kill(children(fork_server)[0], signal.SIGKILL)
        os.kill(fork_server, signal.SIGKILL)

    check(asyncio.run(grade_and_kill(verdicts, groups, kill)), 400)
    assert events == []


def test_an_actor_that_dies_again_and_again_ends_the_run_in_plain_words(actor: Any) -> None:
    process, killed = ray.get(actor.start.remote(), timeout=60), []

    def kill(kind: str, **fields: Any) -> None:
        killed.append(fields["process"])
        os.kill(fields["process"], signal.SIGKILL)

    verdicts = RemoteVerdicts(actor, CONFIG, kill)
    os.kill(process, signal.SIGKILL)
    with pytest.raises(VerifierError, match=f"died {GRADE_ATTEMPTS} times while grading group 7"):
        asyncio.run(verdicts.grade(finished(7, 10)))
    assert len(set(killed)) == GRADE_ATTEMPTS
