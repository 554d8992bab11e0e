"""The allocator actor: predictor and solver, and as the loop's `Allocator` port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import ray

from actors.deadlines import within
from actors.processes import Member
from actors.supervision import Actors, Role, Supervision
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.memory import peak_memory
from rlvr_platform.types import Allocation, Observation, Prompt

START_DEADLINE_S = 600.0
SNAPSHOT_EVERY = 16

State = dict[str, bytes]
"""Content of the files that `save` writes, by name."""


def _files(folder: Path) -> State:
    return {file.name: file.read_bytes() for file in folder.glob("*")}


@ray.remote
class AllocatorActor(Member):
    """Decides how many rollouts each prompt of a step gets, and learns from what they became."""

    def __init__(self, config: ExperimentConfig, model: str) -> None:
        self._config = config
        self._model = model

    def start(self, prompts: Sequence[Prompt]) -> None:
        """Embed the prompts, where the configured allocator predicts."""
        from rlvr_platform.allocation.allocator import make_allocator

        self._allocator = make_allocator(self._config, prompts, self._model)

    def allocate(self, prompts: np.ndarray, budget: int) -> Allocation:
        """Spread `budget` over prompts given by their index, int64 [B]."""
        return self._allocator.allocate(prompts, budget)

    def observe(self, observation: Observation) -> None:
        """Learn from a step's raw outcomes."""
        self._allocator.observe(observation)

    def save(self, folder: str) -> None:
        """Write the predictor's state."""
        self._allocator.save(Path(folder))

    def load(self, folder: str) -> None:
        """Go on from what `save` wrote."""
        self._allocator.load(Path(folder))

    def state(self) -> State:
        """What `save` writes."""
        with TemporaryDirectory() as folder:
            self._allocator.save(Path(folder))
            return _files(Path(folder))

    def restore(self, state: State) -> None:
        """Go on from `state`; from the beginning when it is empty."""
        if not state:
            return
        with TemporaryDirectory() as folder:
            for name, content in state.items():
                Path(folder, name).write_bytes(content)
            self._allocator.load(Path(folder))

    def peak_memory(self) -> dict[str, int]:
        return {"allocator": peak_memory()}


class RemoteAllocator:
    """The allocator actor behind the `Allocator` protocol.

    Keeps what brings a new actor to the same state: a copy of the predictor's state every
    `SNAPSHOT_EVERY` requests, and the requests since.
    """

    def __init__(
        self, create: Callable[[], Actors], prompts: Sequence[Prompt], supervision: Supervision
    ) -> None:
        self.role = Role("allocator", create, self._revive, supervision)
        self._prompts = ray.put(list(prompts))
        self._limit_s = supervision.config.call_timeout_s
        self._in_turn = asyncio.Lock()
        self._state: State = {}
        self._requests: list[tuple[str, tuple[Any, ...]]] = []

    async def start(self) -> None:
        """Embed the prompts; raises DeadlineError when that takes too long."""
        await self._begin(self.role.actors)

    async def allocate(self, prompts: Sequence[Prompt], budget: int) -> Allocation:
        indices = np.array([prompt.index for prompt in prompts], np.int64)
        return await self._change("allocate", indices, budget)

    async def observe(self, observation: Observation) -> None:
        await self._change("observe", observation)

    async def save(self, folder: Path) -> None:
        await self._call("save", str(folder))

    async def load(self, folder: Path) -> None:
        # First, since an actor that is lost from now on goes on from here.
        self._state = await asyncio.to_thread(_files, folder)
        self._requests.clear()
        await self._call("load", str(folder))

    async def _begin(self, actors: Actors) -> None:
        call = actors[0].start.remote(self._prompts)
        await within(call, START_DEADLINE_S, "the allocator's start", "see the allocator's log")

    async def _call(self, method: str, *arguments: Any) -> Any:
        def ask(actors: Actors) -> Any:
            return getattr(actors[0], method).remote(*arguments)

        return await self.role.insist(ask, method, self._limit_s, "see its log")

    async def _change(self, method: str, *arguments: Any) -> Any:
        async with self._in_turn:
            answer = await self._call(method, *arguments)
            self._requests.append((method, arguments))
            if len(self._requests) >= SNAPSHOT_EVERY:
                await self._snapshot()
        return answer

    async def _snapshot(self) -> None:
        """Copy the predictor's state, and forget the requests that led to it."""
        self._state = await self._call("state")
        self._requests.clear()

    async def _revive(self, actors: Actors) -> None:
        """Restore the copy, then repeat the requests since."""
        await self._begin(actors)
        for method, arguments in [("restore", (self._state,)), *self._requests]:
            call = getattr(actors[0], method).remote(*arguments)
            await within(call, self._limit_s, f"the new allocator's {method}", "see its log")
