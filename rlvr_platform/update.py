"""One optimizer step of one rank, from rows to a closed gradient; knows no framework.

The engine is anything that can be called like `PolicyModel` and has `backward(loss, last)`
and `step(learning_rate)`: a DeepSpeed engine in `actors/`, a plain module in tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rlvr_platform.algorithms.objective import objective
from rlvr_platform.batching.micro_batches import MicroBatch, empty, micro_batches
from rlvr_platform.batching.rows import Rows
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.config.learner import LearnerConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.policy import model_inputs
from rlvr_platform.types import TokenSums

Score = Callable[..., tuple[Tensor, Tensor]]
"""`PolicyModel.forward`: micro-batch to log-probabilities and entropies [N]."""


class GradientEngine(Protocol):
    """What an update needs of the thing that holds the weights."""

    device: torch.device

    def __call__(self, *inputs: Tensor | None, min_chunks: int) -> tuple[Tensor, Tensor]: ...

    def backward(self, loss: Tensor, last: bool) -> None: ...

    def step(self, learning_rate: float) -> float: ...


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """One rank's rows of one optimizer step, laid out; every rank has as many micro-batches."""

    micro_batches: list[MicroBatch]
    head_calls: int
    """Head calls of every forward pass: the most that any rank needs, see `PolicyModel`."""


def lay_out(
    rows: Rows,
    learner: LearnerConfig,
    chunks: Callable[[int], int],
    most: Callable[[list[int]], list[int]],
) -> Minibatch:
    """Cut rows into micro-batches and pad their number to the busiest rank's.

    `most` takes the maximum of counts over ranks: collectives inside the forward pass need
    every rank to make as many calls.
    """
    batches = micro_batches(rows, learner.layout, learner.tokens_per_micro_batch)
    calls = max((chunks(len(batch.targets)) for batch in batches), default=1)
    count, calls = most([max(1, len(batches)), calls])
    return Minibatch(batches + [empty()] * (count - len(batches)), calls)


def score_frozen(score: Score, minibatch: Minibatch, device: torch.device) -> list[Tensor]:
    """Log-probabilities [N] of each micro-batch's targets, without gradient."""
    with torch.no_grad():
        return [
            score(*model_inputs(batch, device), min_chunks=minibatch.head_calls)[0]
            for batch in minibatch.micro_batches
        ]


def optimizer_step(
    engine: GradientEngine,
    minibatch: Minibatch,
    old: Sequence[Tensor] | None,
    reference: Sequence[Tensor] | None,
    algorithm: AlgorithmConfig,
    learning_rate: float,
) -> tuple[TokenSums, float]:
    """Accumulate the gradient over micro-batches and step; returns sums and gradient norm.

    `old` None means that the weights have not moved since the step began, so that the old
    log-probabilities are the current ones. Raises NumericalError before the weights are
    touched when the loss is not finite.
    """
    sums = TokenSums()
    for i, batch in enumerate(minibatch.micro_batches):
        logprobs, entropy = engine(
            *model_inputs(batch, engine.device), min_chunks=minibatch.head_calls
        )
        loss, terms = objective(
            logprobs,
            entropy,
            logprobs.detach() if old is None else old[i],
            _tensor(batch.behaviour, engine.device),
            _tensor(batch.advantage, engine.device),
            _tensor(batch.weight, engine.device),
            _tensor(batch.row, engine.device),
            None if reference is None else reference[i],
            algorithm,
        )
        sums = sums + terms
        _require_finite(sums.loss, batch)
        engine.backward(loss, last=i == len(minibatch.micro_batches) - 1)
    return sums, engine.step(learning_rate)


def _tensor(column: np.ndarray, device: torch.device) -> Tensor:
    return torch.from_numpy(column).to(device)


def _require_finite(loss: float, batch: MicroBatch) -> None:
    if math.isfinite(loss):
        return
    culprits: dict[str, Any] = {
        "behaviour": batch.behaviour,
        "advantage": batch.advantage,
        "weight": batch.weight,
    }
    bad = [name for name, column in culprits.items() if not np.isfinite(column).all()]
    raise NumericalError(
        f"the loss is {loss}; not finite among its inputs: {', '.join(bad) or 'none of them'}",
        "a finite loss",
        "resume from the last checkpoint with a lower learning rate or learner.dtype=float32",
    )
