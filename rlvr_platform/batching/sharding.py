"""Which rows belong to which optimizer step and which rank. Whole groups, deterministic."""

import heapq
from dataclasses import replace

import numpy as np

from rlvr_platform.batching.denominators import Normalisation, normalise
from rlvr_platform.types import TrainBatch


def plan_update(
    batch: TrainBatch,
    minibatches: int,
    ranks: int,
    seed: int,
    normalisation: Normalisation,
    constant_length: int,
) -> list[list[TrainBatch]]:
    """Shards by [optimizer step][rank], each with the step's denominator in its weights."""
    return [
        shard(normalise(minibatch, normalisation, constant_length), ranks)
        for minibatch in split_minibatches(batch, minibatches, seed)
    ]


def split_minibatches(batch: TrainBatch, minibatches: int, seed: int) -> list[TrainBatch]:
    """Cut a batch into optimizer steps of similar row counts, at random.

    Groups stay whole, so a batch of fewer groups than `minibatches` gives fewer; none is empty.
    """
    groups = len(batch.handles)
    order = np.random.default_rng(seed).permutation(groups)
    rows = np.bincount(batch.group, minlength=groups)
    parts = _balance(rows, order, min(minibatches, groups))
    return [_take(batch, part) for part in parts]


def shard(batch: TrainBatch, ranks: int) -> list[TrainBatch]:
    """One batch per rank, balanced by row tokens; with few groups some ranks get no rows."""
    groups = len(batch.handles)
    tokens = np.bincount(batch.group, weights=batch.length, minlength=groups)
    return [_take(batch, part) for part in _balance(tokens, np.arange(groups), ranks)]


def _balance(costs: np.ndarray, order: np.ndarray, bins: int) -> list[np.ndarray]:
    """Longest processing time first: each group to the lightest bin; `order` breaks ties.

    Returns the sorted group indices of each bin. Makespan at most 4/3 of the best possible.
    """
    parts: list[list[int]] = [[] for _ in range(bins)]
    lightest = [(0.0, index) for index in range(bins)]
    for group in sorted(order.tolist(), key=lambda group: -costs[group]):
        load, index = lightest[0]
        parts[index].append(group)
        heapq.heapreplace(lightest, (load + float(costs[group]), index))
    return [np.array(sorted(part), dtype=np.int64) for part in parts]


def _take(batch: TrainBatch, groups: np.ndarray) -> TrainBatch:
    """The rows of some groups, with only their handles."""
    position = np.full(len(batch.handles), -1, dtype=np.int32)
    position[groups] = np.arange(len(groups), dtype=np.int32)
    rows = position[batch.group] >= 0
    return replace(
        batch,
        handles=tuple(batch.handles[group] for group in groups),
        group=position[batch.group[rows]],
        sibling=batch.sibling[rows],
        advantage=batch.advantage[rows],
        weight=batch.weight[rows],
        length=batch.length[rows],
        trained_tokens=batch.trained_tokens[rows],
    )
