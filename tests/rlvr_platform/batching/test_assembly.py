import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.batching.assembly import (
    column,
    concatenate,
    drawn_rows,
    equal_prompts,
    fresh_rows,
    restrict,
)
from rlvr_platform.replay.records import Draw
from rlvr_platform.types import GradedGroup, GroupSummary, TrainBatch


def graded(group_id, size):
    """Sibling i of group g has 10 g + i completion tokens, one of them not trained."""
    lengths = np.arange(10 * group_id, 10 * group_id + size, dtype=np.int32)
    summary = GroupSummary(
        group_id=group_id,
        step=1,
        prompt_index=group_id,
        prompt_tokens=100 * group_id,
        lengths=lengths,
        trained_tokens=lengths - 1,
        first_version=np.zeros(size, np.int32),
        finish=np.zeros(size, np.uint8),
        seconds=1.0,
        nbytes=1,
    )
    return GradedGroup(summary, (), f"handle-{group_id}")


def batch_of(masks, first=1):
    """Rows of groups first, first + 1, ...; the advantage tells group and sibling."""
    groups = [graded(first + i, len(mask)) for i, mask in enumerate(masks)]
    scores = [g.summary.group_id + np.arange(g.summary.size) / 16 for g in groups]
    return fresh_rows(groups, [np.array(mask, bool) for mask in masks], scores, 4, 3)


def told(batch):
    """Every row as (handle, sibling, advantage, weight, length, trained tokens)."""
    names = ("sibling", "advantage", "weight", "length", "trained_tokens")
    columns = (getattr(batch, name).tolist() for name in names)
    return list(zip((batch.handles[g] for g in batch.group), *columns, strict=True))


def assert_well_formed(batch):
    """Types as documented, every handle used, indices in range."""
    types = {f.name: np.float32 for f in dataclasses.fields(TrainBatch) if f.name in FLOATS}
    for name in ("group", "sibling", "length", "trained_tokens", *FLOATS):
        values = getattr(batch, name)
        assert values.dtype == types.get(name, np.int32) and values.shape == (batch.rows,), name
    assert sorted(set(batch.group.tolist())) == list(range(len(batch.handles)))


FLOATS = ("advantage", "weight")
masks = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), max_size=6)


@given(masks)
def test_fresh_rows_are_the_selected_siblings_in_order(masks):
    batch = batch_of(masks)
    assert_well_formed(batch)
    assert told(batch) == [
        (f"handle-{g}", s, g + s / 16, 1.0, 110 * g + s, 10 * g + s - 1)
        for g, mask in enumerate(masks, 1)
        for s, chosen in enumerate(mask)
        if chosen
    ]
    assert (batch.step, batch.version) == (4, 3)


@given(masks, masks)
def test_concatenation_is_both_batches_rows(first, second):
    one, two = batch_of(first), batch_of(second, first=20)
    both = concatenate(one, dataclasses.replace(two, step=9, version=8))
    assert_well_formed(both)
    assert told(both) == told(one) + told(two)
    assert (both.step, both.version) == (4, 3)


@given(masks, st.randoms(use_true_random=False))
def test_restriction_keeps_the_chosen_rows_and_only_their_handles(masks, chance):
    batch = equal_prompts(batch_of(masks))
    chosen = np.array([chance.random() < 0.5 for _ in range(batch.rows)], bool)
    part = restrict(batch, chosen)
    assert_well_formed(part)
    assert told(part) == [row for row, keep in zip(told(batch), chosen, strict=True) if keep]


@given(masks)
def test_every_prompt_has_the_same_total_weight_and_the_mean_is_one(masks):
    plain = batch_of(masks)
    batch = equal_prompts(plain)
    assert_well_formed(batch)
    if batch.rows:
        assert batch.weight.mean() == pytest.approx(1.0, rel=1e-6)
        pull = np.bincount(batch.group, weights=batch.weight)
        assert pull == pytest.approx([batch.rows / len(batch.handles)] * len(pull), rel=1e-6)
    unweighted = dataclasses.replace(batch, weight=plain.weight)
    assert told(unweighted) == told(plain)


@given(st.integers(1, 9), st.integers(1, 9))
def test_prompts_with_equally_many_rows_keep_a_weight_of_exactly_one(prompts, rows):
    batch = equal_prompts(batch_of([[True] * rows] * prompts))
    assert batch.weight.tolist() == [1.0] * (prompts * rows)


def test_drawn_rows_point_at_their_handles_with_the_advantages_of_their_birth():
    drawn = Draw(
        handles=("a", "b"),
        group_ids=np.array([7, 9]),
        group=np.array([1, 0, 1], np.int32),
        sibling=np.array([3, 0, 1], np.int32),
        advantage=np.array([0.5, -2.0, 1.0], np.float32),
        length=np.array([20, 30, 40], np.int32),
        trained_tokens=np.array([2, 3, 4], np.int32),
        ages=np.array([1, 10, 1]),
        probability=np.full(3, 0.1),
    )
    batch = drawn_rows(drawn, 4, 3)
    assert_well_formed(batch)
    assert told(batch) == [
        ("b", 3, 0.5, 1.0, 20, 2),
        ("a", 0, -2.0, 1.0, 30, 3),
        ("b", 1, 1.0, 1.0, 40, 4),
    ]
    assert (batch.step, batch.version) == (4, 3)


def test_a_column_of_no_parts_is_empty_and_has_its_type():
    assert column([], np.int32).dtype == np.int32 and len(column([], np.int32)) == 0
    joined = column([np.array([1.5]), np.array([2.5])], np.float32)
    assert joined.dtype == np.float32 and joined.tolist() == [1.5, 2.5]
