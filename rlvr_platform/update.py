"""One optimizer step of one rank, from rows to a closed gradient; knows no framework.

The engine is anything that can be called like `PolicyModel` and has `backward(loss, last)`
and `step(learning_rate)`: a DeepSpeed engine in `actors/`, a plain module in tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
import torch
from torch import Tensor

from rlvr_platform.algorithms.objective import objective
from rlvr_platform.batching.micro_batches import MicroBatch, empty, micro_batches
from rlvr_platform.batching.rows import Rows
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.config.learner import LearnerConfig
from rlvr_platform.guards import Evidence, NonFiniteUpdate, faults, take_rows
from rlvr_platform.policy import model_inputs
from rlvr_platform.types import TokenSums

Score = Callable[..., tuple[Tensor, Tensor]]
"""`PolicyModel.forward`: micro-batch to log-probabilities and entropies [N]."""


class GradientEngine(Protocol):
    """What an update needs of the thing that holds the weights."""

    device: torch.device

    def __call__(self, *inputs: Tensor | None, min_chunks: int) -> tuple[Tensor, Tensor]: ...

    def backward(self, loss: Tensor, last: bool) -> None: ...

    def step(self, learning_rate: float) -> float:
        """Step by the gradient accumulated since the last one; returns its norm over all ranks.

        Where the norm is not finite the gradient is dropped, and weights and optimizer stay
        as they are.
        """
        ...

    def most(self, counts: list[int]) -> list[int]:
        """Maximum over ranks of each count; collective."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """One rank's rows of one optimizer step, laid out; every rank has as many micro-batches."""

    rows: Rows
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
    return Minibatch(rows, batches + [empty()] * (count - len(batches)), calls)


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
    log-probabilities are the current ones. Raises NonFiniteUpdate, on every rank, when a loss,
    a statistic or the gradient of any rank is not finite; nothing has moved then.
    """
    sums = TokenSums()
    faulty: dict[int, str] = {}
    scored: list[Scores] = []
    last = len(minibatch.micro_batches) - 1
    for i, batch in enumerate(minibatch.micro_batches):
        logprobs, entropy = engine(
            *model_inputs(batch, engine.device), min_chunks=minibatch.head_calls
        )
        scores = Scores(
            logprobs.detach(),
            logprobs.detach() if old is None else old[i],
            None if reference is None else reference[i],
        )
        loss, terms = _loss(logprobs, entropy, batch, scores, algorithm)
        if wrong := faults(terms):
            faulty[i] = f"{wrong[0]} is {getattr(terms, wrong[0])}"
            # Whatever the clipping left of it, this gradient is NaN, and so is its norm on all
            # ranks: they refuse the step together and none waits for another.
            loss = logprobs.sum() * math.nan
        sums = sums + terms
        scored.append(scores)
        engine.backward(loss, last=i == last)
    norm = engine.step(learning_rate)
    if not math.isfinite(norm):
        _refuse(engine, minibatch, scored, faulty, f"gradient norm is {norm}", algorithm)
    assert not faulty, "a gradient of NaN has a finite norm"
    return sums, norm


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Log-probabilities [N] of a micro-batch's targets, nats, without gradient."""

    policy: Tensor
    old: Tensor
    reference: Tensor | None


def _loss(
    logprobs: Tensor, entropy: Tensor, batch: MicroBatch, scores: Scores, algorithm: AlgorithmConfig
) -> tuple[Tensor, TokenSums]:
    device = logprobs.device
    return objective(
        logprobs,
        entropy,
        scores.old,
        torch.from_numpy(batch.behaviour).to(device),
        torch.from_numpy(batch.advantage).to(device),
        torch.from_numpy(batch.weight).to(device),
        torch.from_numpy(batch.row).to(device),
        scores.reference,
        algorithm,
    )


def _refuse(
    engine: GradientEngine,
    minibatch: Minibatch,
    scored: Sequence[Scores],
    faulty: Mapping[int, str],
    gradient: str,
    algorithm: AlgorithmConfig,
) -> NoReturn:
    """Raise NonFiniteUpdate with this rank's share of the evidence; collective.

    The rows of the faulty micro-batches. Where no rank has one and yet the gradient is not
    finite, it may come from anywhere: all rows of all ranks.
    """
    (elsewhere,) = engine.most([len(faulty)])
    chosen = list(faulty) or ([] if elsewhere else range(len(scored)))
    batches = [minibatch.micro_batches[i] for i in chosen]
    scores = [scored[i] for i in chosen]
    if not any(len(batch.targets) for batch in batches):
        raise NonFiniteUpdate(None)
    reason = next(iter(faulty.values()), gradient)
    raise NonFiniteUpdate(_evidence(minibatch.rows, batches, scores, reason, algorithm))


def _evidence(
    rows: Rows,
    batches: Sequence[MicroBatch],
    scores: Sequence[Scores],
    reason: str,
    algorithm: AlgorithmConfig,
) -> Evidence:
    """The rows of these micro-batches with their scores, by row."""
    owner = np.concatenate([batch.row for batch in batches])
    part, order = take_rows(rows, np.unique(owner)), np.argsort(owner, kind="stable")

    def column(parts: Sequence[Tensor]) -> np.ndarray:
        values = torch.cat(list(parts)).cpu().numpy()
        whole = np.full(len(part.tokens), np.nan, values.dtype)
        whole[part.trained] = values[order]
        return whole

    reference = [s.reference for s in scores if s.reference is not None]
    return Evidence(
        reason=reason,
        rows=part,
        logprobs=column([s.policy for s in scores]),
        old=column([s.old for s in scores]),
        reference=column(reference) if reference else None,
        algorithm=algorithm,
    )
