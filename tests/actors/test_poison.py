"""A prompt that kills a real engine is given up; all others come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import ray

from actors.rollout_worker import RolloutWorkerActor
from actors.rollouts import RemoteRollouts
from actors.supervision import Supervision
from rlvr_platform.config import ExperimentConfig
from rlvr_platform.types import LoadReport, Prompt, Quarantined, Ticket, WeightSnapshot
from tests.actors.conftest import Events

POISON = 2
Plain: Any = RolloutWorkerActor.__ray_metadata__.modified_class  # type: ignore[attr-defined]


@ray.remote
class Poisoned(Plain):
    """A rollout worker whose engine's process dies over one prompt, as of a fault in a kernel."""

    async def generate(self, tickets: Sequence[Ticket], temperature: float) -> AsyncIterator[Any]:
        harmless = [ticket for ticket in tickets if ticket.prompt.index != POISON]
        if harmless:  # first, since every restart of an engine takes long
            async for message in super().generate(harmless, temperature):
                yield message
        for child in self.identify().children:
            os.kill(child.pid, signal.SIGKILL)
        async for message in super().generate(tickets, temperature):
            yield message

    async def load(self, snapshot: WeightSnapshot) -> LoadReport:
        """The engine has the initial weights already."""
        return LoadReport(0.0, 0.0)


def test_a_prompt_that_kills_a_real_engine_is_given_up_and_all_others_come_back(
    ray_session: None,
    config: ExperimentConfig,
    tiny_model: str,
    supervision: Supervision,
    events: Events,
) -> None:
    from actors.engine import engine_environment

    options = {"runtime_env": {"env_vars": engine_environment(config)}}

    async def weights() -> WeightSnapshot:
        return WeightSnapshot(0, (), 0, np.zeros(1, np.int32), None, 0.0)

    rollouts = RemoteRollouts(
        lambda index: Poisoned.options(**options).remote(index, config, tiny_model),
        config,
        weights,
        supervision,
    )
    prompts = [Prompt(i, f"{i}+1=", np.array([5, 6], np.int32), "", "test") for i in range(4)]

    async def scenario() -> tuple[list[int], list[int]]:
        await rollouts.start()
        finished, given_up = [], []
        async for settled in rollouts.stream([Ticket(p.index, 1, p, 4, 7) for p in prompts], 1.0):
            if isinstance(settled, Quarantined):
                given_up.append(settled.ticket.prompt.index)
            else:
                finished += settled.group_ids
        await rollouts.roles[0].end()
        return sorted(finished), given_up

    finished, given_up = asyncio.run(scenario())
    assert given_up == [POISON]
    assert finished == [0, 1, 3]
    reasons = [event["reason"] for event in events.of("role_restarted")]
    assert len(reasons) == 2
    assert all("the engine's process is dead" in reason for reason in reasons)
