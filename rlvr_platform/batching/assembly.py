"""From fates to the rows of an update: which rollouts, with which advantage and weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rlvr_platform.replay.records import Draw
from rlvr_platform.types import GradedGroup, TrainBatch

_COLUMNS = ("sibling", "advantage", "weight", "length", "trained_tokens")


def fresh_rows(
    graded: Sequence[GradedGroup],
    selected: Sequence[np.ndarray],
    advantages: Sequence[np.ndarray],
    step: int,
    version: int,
) -> TrainBatch:
    """The selected rollouts, bool [G] per group, in the order of the groups; weights are 1.

    `advantages`: float [G] per group. Groups without a selected rollout are absent.
    """
    siblings = [np.flatnonzero(mask) for mask in selected]
    kept = [index for index, rows in enumerate(siblings) if len(rows)]
    summaries = [graded[index].summary for index in kept]
    rows = [siblings[index] for index in kept]
    lengths = [s.prompt_tokens + s.lengths[r] for s, r in zip(summaries, rows, strict=True)]
    group = np.repeat(np.arange(len(kept)), [len(r) for r in rows]).astype(np.int32)
    return TrainBatch(
        step=step,
        version=version,
        handles=tuple(graded[index].handle for index in kept),
        group=group,
        sibling=column(rows, np.int32),
        advantage=column([advantages[i][r] for i, r in zip(kept, rows, strict=True)], np.float32),
        weight=np.ones(len(group), np.float32),
        length=column(lengths, np.int32),
        trained_tokens=column(
            [s.trained_tokens[r] for s, r in zip(summaries, rows, strict=True)], np.int32
        ),
    )


def drawn_rows(drawn: Draw, step: int, version: int) -> TrainBatch:
    """Replayed rollouts as rows of weight 1, with the advantages of their birth."""
    return TrainBatch(
        step=step,
        version=version,
        handles=drawn.handles,
        group=drawn.group,
        sibling=drawn.sibling,
        advantage=drawn.advantage,
        weight=np.ones(drawn.rows, np.float32),
        length=drawn.length,
        trained_tokens=drawn.trained_tokens,
    )


def equal_prompts(batch: TrainBatch) -> TrainBatch:
    """Weight rows so that every prompt pulls equally hard, whatever number of rows it has.

    A row of a group with k rows weighs (mean k) / k: the weights' mean over rows is 1. Without
    it, a loss that is a mean over rows or tokens counts prompts with more rollouts more often,
    and the estimator is not the one whose variance the allocation minimises.
    """
    if batch.rows == 0:
        return batch
    rows = np.bincount(batch.group, minlength=len(batch.handles))
    factor = (batch.rows / len(batch.handles)) / rows[batch.group]
    return replace(batch, weight=(batch.weight * factor).astype(np.float32))


def concatenate(first: TrainBatch, second: TrainBatch) -> TrainBatch:
    """Both batches' rows; step and version are the first's."""
    columns = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _COLUMNS
    }
    shifted = second.group + np.int32(len(first.handles))
    return replace(
        first,
        handles=first.handles + second.handles,
        group=np.concatenate([first.group, shifted]),
        **columns,
    )


def restrict(batch: TrainBatch, rows: np.ndarray) -> TrainBatch:
    """The rows where `rows`, bool [R], is True, with only their handles."""
    kept, group = np.unique(batch.group[rows], return_inverse=True)
    return replace(
        batch,
        handles=tuple(batch.handles[index] for index in kept),
        group=group.astype(np.int32),
        **{name: getattr(batch, name)[rows] for name in _COLUMNS},
    )


def column(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    """Concatenation of any number of parts, none included."""
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype)
