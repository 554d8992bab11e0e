import dataclasses

import numpy as np
import pytest

from rlvr_platform.batching.rows import gather_rows
from rlvr_platform.batching.sharding import shard


def test_rows_are_prompt_then_completion_with_targets_only_in_the_completion(
    make_group, make_batch
):
    groups = [make_group(0, 3, [2, 4], masked=0.5), make_group(1, 1, [5], masked=0.5)]
    batch = make_batch(groups)
    rows = gather_rows(batch, groups)
    assert rows.count == 3 and rows.lengths.tolist() == batch.length.tolist() == [5, 7, 6]
    for row, (group, sibling) in enumerate([(0, 0), (0, 1), (1, 0)]):
        source, here = groups[group], slice(rows.offsets[row], rows.offsets[row + 1])
        span, prompt = source.sibling(sibling), source.ticket.prompt.tokens
        assert rows.tokens[here].tolist() == [*prompt, *source.tokens[span]]
        assert (
            rows.trained[here].tolist() == [False] * len(prompt) + source.loss_mask[span].tolist()
        )
        assert rows.behaviour[here].tolist() == [0.0] * len(prompt) + source.logprobs[span].tolist()
    assert rows.tokens.dtype == np.int32 and rows.behaviour.dtype == np.float32


def test_rows_follow_the_batch_order_and_may_skip_siblings(make_group, make_batch):
    groups = [make_group(0, 2, [1, 2, 3])]
    batch = make_batch(groups)
    picked = np.array([2, 0])
    columns = ("group", "sibling", "advantage", "weight", "length", "trained_tokens")
    some = dataclasses.replace(batch, **{name: getattr(batch, name)[picked] for name in columns})
    rows = gather_rows(some, groups)
    assert rows.lengths.tolist() == [5, 3]
    assert rows.tokens[2:5].tolist() == groups[0].tokens[3:].tolist()
    assert rows.advantage.tolist() == batch.advantage[picked].tolist()


def test_a_rank_without_rows_gathers_nothing(make_group, make_batch):
    nothing = shard(make_batch([make_group(0, 2, [1, 2])]), 2)[1]
    rows = gather_rows(nothing, [])
    assert rows.count == 0 and len(rows.tokens) == 0 and rows.offsets.tolist() == [0]


def test_tokens_that_the_denominator_did_not_count_are_refused(make_group, make_batch):
    groups = [make_group(0, 2, [3, 4])]
    batch = make_batch(groups)
    masked = dataclasses.replace(groups[0], loss_mask=np.zeros(7, bool))
    with pytest.raises(ValueError, match="the batch says"):
        gather_rows(batch, [masked])
    with pytest.raises(ValueError, match="rows have"):
        gather_rows(dataclasses.replace(batch, length=batch.length + 1), groups)


def test_a_row_without_a_prompt_is_refused(make_group, make_batch):
    groups = [make_group(0, 0, [3])]
    with pytest.raises(ValueError, match="nothing predicts"):
        gather_rows(make_batch(groups), groups)
