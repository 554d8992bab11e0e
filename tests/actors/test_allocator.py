"""The allocator's loss, at any moment, changes no decision."""

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

from actors.allocator import SNAPSHOT_EVERY, AllocatorActor, RemoteAllocator
from actors.supervision import Supervision
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.types import Observation, Prompt
from tests.actors.conftest import Events

CONFIG = ExperimentConfig.model_validate(
    {
        "steps": 9,
        "model": {"kind": "pretrained", "path": "m"},
        "data": {"train": {"kind": "arithmetic"}},
        "verifier": {"use": {"kind": "exact"}},
        "allocator": {
            "kind": "vip",
            "embedding": {"kind": "ngrams", "dimension": 8},
            "min_rollouts": 2,
            "max_rollouts": 8,
        },
    },
    strict=False,
)
PROMPTS = [
    Prompt(i, f"what is {i} + {i % 3}?", np.array([i], np.int32), "", "test") for i in range(8)
]
STEPS = SNAPSHOT_EVERY // 2 + 3


@pytest.fixture
def make(ray_session: None, supervision: Supervision) -> Iterator[Any]:
    made: list[RemoteAllocator] = []

    def started() -> RemoteAllocator:
        port = RemoteAllocator(
            lambda: [AllocatorActor.remote(CONFIG, "no model")], PROMPTS, supervision
        )
        asyncio.run(port.start())
        made.append(port)
        return port

    yield started
    for port in made:
        asyncio.run(port.role.end())


def kill(port: RemoteAllocator) -> None:
    (actor,) = port.role.actors
    os.kill(ray.get(actor.identify.remote(), timeout=60).own.pid, signal.SIGKILL)


async def decide(port: RemoteAllocator, steps: range, lose: dict[int, str]) -> list[list[int]]:
    """Decisions of a few steps; the actor is killed before those calls."""
    decided = []
    for step in steps:
        draw = np.random.default_rng(step)
        chosen = draw.permutation(len(PROMPTS))[:4]
        if lose.get(step) == "allocate":
            kill(port)
        allocation = await port.allocate([PROMPTS[i] for i in chosen], 16)
        decided.append([*allocation.counts.tolist(), *allocation.predicted.tolist()])
        counts = allocation.counts
        if lose.get(step) == "observe":
            kill(port)
        await port.observe(Observation(chosen, counts * chosen / 8, counts, counts * 5))
    return decided


def test_an_allocator_that_is_lost_decides_as_if_nothing_had_happened(
    make: Any, events: Events
) -> None:
    undisturbed = asyncio.run(decide(make(), range(STEPS), {}))
    lose = {2: "observe", STEPS - 2: "allocate"}
    assert asyncio.run(decide(make(), range(STEPS), lose)) == undisturbed
    assert len(events.of("role_restarted")) == len(lose)
    assert len({tuple(decision) for decision in undisturbed}) > 1


def test_one_that_is_lost_right_after_a_resume_still_knows_what_was_learned(
    make: Any, tmp_path: Path
) -> None:
    first = make()
    asyncio.run(decide(first, range(3), {}))
    asyncio.run(first.save(tmp_path))
    expected = asyncio.run(decide(first, range(3, 5), {}))
    resumed = make()
    insist = resumed.role.insist

    async def losing(work: Any, what: str, limit_s: float, fix: str) -> Any:
        answer = await insist(work, what, limit_s, fix)
        if what == "load":
            kill(resumed)
        return answer

    resumed.role.insist = losing
    asyncio.run(resumed.load(tmp_path))
    resumed.role.insist = insist
    assert asyncio.run(decide(resumed, range(3, 5), {})) == expected
