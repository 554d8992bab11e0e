"""From pointers to tokens: the rows that one rank trains on, as flat columns."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_platform.types import RolloutGroup, TrainBatch


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """R rows, prompt and completion end to end; S tokens in all."""

    tokens: np.ndarray
    """int32 [S]."""
    offsets: np.ndarray
    """int64 [R+1]; row i owns tokens[offsets[i]:offsets[i+1]]."""
    trained: np.ndarray
    """bool [S]; True where the token is a target that carries gradient. False on prompts."""
    behaviour: np.ndarray
    """float32 [S], behaviour log-probabilities, nats; 0 on prompts."""
    advantage: np.ndarray
    """float32 [R]."""
    weight: np.ndarray
    """float32 [R], factor of every token loss of the row."""
    group: np.ndarray
    """int32 [R]; rows of one group share their prompt."""
    prompt_length: np.ndarray
    """int64 [R], tokens of the row's prompt."""

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """int64 [R], prompt plus completion tokens."""
        return np.diff(self.offsets)


def gather_rows(batch: TrainBatch, groups: Sequence[RolloutGroup]) -> Rows:
    """Fetch the rows of `batch` out of `groups`, the values of its handles in their order.

    Raises ValueError when a group does not have the tokens that the batch counted.
    """
    parts = [
        _row(groups[group], int(sibling))
        for group, sibling in zip(batch.group, batch.sibling, strict=True)
    ]
    tokens, trained, behaviour = zip(*parts, strict=True) if parts else ((), (), ())
    _check_counts(batch, tokens, trained)
    return Rows(
        tokens=_join(tokens, np.int32),
        offsets=np.concatenate([[0], np.cumsum([len(row) for row in tokens], dtype=np.int64)]),
        trained=_join(trained, bool),
        behaviour=_join(behaviour, np.float32),
        advantage=batch.advantage,
        weight=batch.weight,
        group=batch.group,
        prompt_length=np.array(
            [len(groups[group].ticket.prompt.tokens) for group in batch.group], dtype=np.int64
        ),
    )


def _row(group: RolloutGroup, sibling: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, trained and behaviour columns of one prompt and completion."""
    prompt, span = group.ticket.prompt.tokens, group.sibling(sibling)
    return (
        np.concatenate([prompt, group.tokens[span]]),
        np.concatenate([np.zeros(len(prompt), bool), group.loss_mask[span]]),
        np.concatenate([np.zeros(len(prompt), np.float32), group.logprobs[span]]),
    )


def _join(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


def _check_counts(
    batch: TrainBatch, tokens: Sequence[np.ndarray], trained: Sequence[np.ndarray]
) -> None:
    """The denominator was made from the batch's counts: they must be the rows' own."""
    lengths = np.array([len(row) for row in tokens], dtype=np.int64)
    counts = np.array([int(row.sum()) for row in trained], dtype=np.int64)
    if not np.array_equal(lengths, batch.length):
        raise ValueError(f"rows have {lengths} tokens, the batch says {batch.length}")
    if not np.array_equal(counts, batch.trained_tokens):
        raise ValueError(f"rows train {counts} tokens, the batch says {batch.trained_tokens}")
    if any(row[0] for row in trained):
        raise ValueError("a row trains its first token, which nothing predicts: empty prompt")
