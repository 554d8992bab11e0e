"""One denominator for one optimizer step, whatever ranks and micro-batches it is cut into."""

from dataclasses import replace
from typing import Literal

import numpy as np

from rlvr_platform.types import TrainBatch

Normalisation = Literal["token_mean", "sequence_mean", "constant"]


def loss_weights(
    trained_tokens: np.ndarray, normalisation: Normalisation, constant_length: int
) -> np.ndarray:
    """float32 [R]: the factor of each trained token of a row, given int32 [R] counts.

    token_mean: 1 / trained tokens of all rows. sequence_mean: 1 / (rows * trained tokens of the
    row). constant: 1 / (rows * constant_length). Only rows that have trained tokens count; row
    weights do not enter the denominator, so a row of weight 1/2 pulls half as hard.
    """
    tokens = trained_tokens.astype(np.float64)
    trained = tokens > 0
    rows = max(int(trained.sum()), 1)
    per_row = {
        "token_mean": np.full(len(tokens), max(tokens.sum(), 1.0)),
        "sequence_mean": rows * np.maximum(tokens, 1.0),
        "constant": np.full(len(tokens), float(rows * constant_length)),
    }[normalisation]
    return np.where(trained, 1.0 / per_row, 0.0).astype(np.float32)


def normalise(batch: TrainBatch, normalisation: Normalisation, constant_length: int) -> TrainBatch:
    """Fold the denominator of all rows of `batch` into their weights.

    Afterwards the step's loss is the plain sum over rows and tokens of weight * token loss, so
    it must be called once per optimizer step, before the rows are sharded.
    """
    factors = loss_weights(batch.trained_tokens, normalisation, constant_length)
    return replace(batch, weight=batch.weight * factors)
