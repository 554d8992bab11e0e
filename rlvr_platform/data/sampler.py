"""The order in which prompts are visited: seeded, endless, resumable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlvr_platform.errors import InputError


class PromptSampler:
    """Endless positions in `0..count-1`; every epoch visits each exactly once."""

    def __init__(self, count: int, seed: int, shuffle: bool) -> None:
        if count < 1:
            raise InputError("there are no prompts to sample from", "at least one prompt")
        self._order = {"count": count, "seed": seed, "shuffle": shuffle}
        self._position = 0
        self._permutation = self._epoch(0)

    def next(self, n: int) -> list[int]:
        """The next `n` positions, across as many epochs as that takes."""
        drawn: list[int] = []
        while len(drawn) < n:
            epoch, start = divmod(self._position, self._order["count"])
            if start == 0:
                self._permutation = self._epoch(epoch)
            part = self._permutation[start : start + n - len(drawn)]
            self._position += len(part)
            drawn.extend(part.tolist())
        return drawn

    def state(self) -> dict[str, Any]:
        """What `restore` needs; JSON-able."""
        return {"position": self._position, **self._order}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken. Raises InputError when the order is another one."""
        changed = [
            f"{name} is {value}, was {state.get(name)}"
            for name, value in self._order.items()
            if state.get(name) != value
        ]
        if changed:
            raise InputError(
                f"the prompts changed since the checkpoint: {'; '.join(changed)}",
                "the same prompts, seed and order",
                "resume with the data section and seed of the interrupted run",
            )
        self._position = int(state["position"])
        self._permutation = self._epoch(self._position // self._order["count"])

    def _epoch(self, epoch: int) -> np.ndarray:
        """int64 [count], the order of one epoch."""
        if not self._order["shuffle"]:
            return np.arange(self._order["count"])
        return np.random.default_rng((self._order["seed"], epoch)).permutation(self._order["count"])
