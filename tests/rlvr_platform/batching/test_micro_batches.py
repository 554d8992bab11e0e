import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_platform.batching.micro_batches import (
    empty,
    micro_batches,
    packed,
    padded,
    shared_prompt,
)
from rlvr_platform.batching.rows import gather_rows
from rlvr_platform.errors import ConfigError
from rlvr_platform.policy import tree_mask

shapes = st.lists(
    st.tuples(st.integers(1, 9), st.lists(st.integers(1, 15), min_size=1, max_size=6)),
    min_size=1,
    max_size=8,
)
layouts = st.sampled_from([padded, packed])
with_fixtures = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30
)


@pytest.fixture
def build(make_group, make_batch):
    def rows_of(shapes, masked=0.3):
        groups = [make_group(i, *shape, masked=masked) for i, shape in enumerate(shapes)]
        return gather_rows(make_batch(groups), groups)

    return rows_of


every_layout = st.sampled_from([padded, packed, shared_prompt])


@with_fixtures
@given(shapes, every_layout, st.integers(24, 120))
def test_every_trained_token_appears_exactly_once_with_its_columns(build, shapes, layout, budget):
    rows = build(shapes)
    batches = layout(rows, budget)
    got = [
        entry
        for b in batches
        for entry in zip(
            b.row.tolist(),
            b.targets.tolist(),
            b.behaviour.tolist(),
            b.advantage.tolist(),
            b.weight.tolist(),
            strict=True,
        )
    ]
    row = np.repeat(np.arange(rows.count), rows.lengths)[rows.trained]
    columns = (
        row,
        rows.tokens[rows.trained],
        rows.behaviour[rows.trained],
        rows.advantage[row],
        rows.weight[row],
    )
    wanted = list(zip(*(column.tolist() for column in columns), strict=True))
    assert sorted(got) == sorted(wanted)


@with_fixtures
@given(shapes, every_layout, st.integers(24, 120))
def test_a_row_is_never_cut_over_micro_batches(build, shapes, layout, budget):
    """A ratio of a whole completion needs all of its tokens in one place."""
    owners = [set(batch.row.tolist()) for batch in layout(build(shapes), budget)]
    assert sum(map(len, owners)) == len(set().union(*owners))


@with_fixtures
@given(shapes, every_layout, st.integers(24, 120))
def test_the_budget_holds_padding_included(build, shapes, layout, budget):
    rows = build(shapes)
    assert all(batch.tokens.size <= budget for batch in layout(rows, budget))


@with_fixtures
@given(shapes, layouts, st.integers(24, 120))
def test_predicting_positions_follow_their_own_row_only(build, shapes, layout, budget):
    rows = build(shapes)
    for batch in layout(rows, budget):
        flat, positions = batch.tokens.ravel(), batch.position_ids.ravel()
        for where, target, row in zip(batch.predict, batch.targets, batch.row, strict=True):
            own = rows.tokens[rows.offsets[row] : rows.offsets[row + 1]]
            at = positions[where]
            assert flat[where - at : where + 1].tolist() == own[: at + 1].tolist()
            assert positions[where - at] == 0
            assert target == own[at + 1] == flat[where + 1]


@with_fixtures
@given(shapes, st.integers(24, 120))
def test_positions_restart_only_where_a_row_begins(build, shapes, budget):
    rows = build(shapes)
    for batch in padded(rows, budget):
        assert (batch.position_ids == np.arange(batch.tokens.shape[1])).all()
    starts = [int((batch.position_ids == 0).sum()) for batch in packed(rows, budget)]
    assert sum(starts) == rows.count
    assert sum(batch.tokens.size for batch in packed(rows, budget)) == len(rows.tokens)


@with_fixtures
@given(shapes, st.integers(24, 120))
def test_behind_a_shared_prompt_a_target_sees_its_own_row_up_to_itself(build, shapes, budget):
    rows = build(shapes)
    for batch in shared_prompt(rows, budget):
        visible = tree_mask(torch.from_numpy(batch.segments))[:, 0].numpy()
        width = batch.tokens.shape[1]
        for where, target, row in zip(batch.predict, batch.targets, batch.row, strict=True):
            line, query = divmod(int(where), width)
            seen = visible[line, query]
            own = rows.tokens[rows.offsets[row] : rows.offsets[row + 1]]
            at = int(batch.position_ids[line, query])
            order = np.argsort(batch.position_ids[line, seen])
            assert batch.tokens[line, seen][order].tolist() == own[: at + 1].tolist()
            assert target == own[at + 1]


def test_a_group_behind_one_prompt_takes_its_prompt_once(build):
    rows = build([(5, [2, 3, 4])], masked=0.0)
    assert [batch.tokens.shape for batch in shared_prompt(rows, budget=100)] == [(1, 14)]
    assert [batch.tokens.shape for batch in shared_prompt(rows, budget=10)] == [(1, 10), (1, 9)]


def test_padded_rows_of_one_length_waste_nothing(build):
    rows = build([(2, [4, 10, 4, 10]), (2, [10, 4])], masked=0.0)
    batches = padded(rows, budget=36)
    assert [batch.tokens.shape for batch in batches] == [(3, 12), (3, 6)]


def test_packing_fills_each_sequence_first_fit_decreasing(build):
    rows = build([(1, [6, 5, 4, 3, 2, 1])], masked=0.0)
    assert [batch.tokens.size for batch in packed(rows, budget=9)] == [9, 9, 9]


@pytest.mark.parametrize("layout", [padded, packed, shared_prompt])
def test_a_row_longer_than_the_budget_is_a_configuration_error(build, layout):
    with pytest.raises(ConfigError, match=r"row of 12 tokens.*tokens_per_micro_batch=11"):
        layout(build([(2, [10])]), 11)


@pytest.mark.parametrize("layout", ["padded", "packed", "shared_prompt"])
def test_no_rows_make_no_micro_batch(make_group, make_batch, layout):
    group = make_group(0, 2, [3])
    rows = gather_rows(make_batch([group]), [group])
    assert len(micro_batches(rows, layout, 64)) == 1
    keep = np.zeros(0, int)
    nothing = dataclasses.replace(
        rows,
        tokens=rows.tokens[keep],
        offsets=np.zeros(1, np.int64),
        **{
            name: getattr(rows, name)[keep]
            for name in ("trained", "behaviour", "advantage", "weight", "group", "prompt_length")
        },
    )
    assert micro_batches(nothing, layout, 64) == []


def test_the_empty_micro_batch_has_one_token_and_no_target():
    batch = empty()
    assert batch.tokens.shape == batch.position_ids.shape == (1, 1)
    assert all(len(column) == 0 for column in (batch.predict, batch.targets, batch.weight))


def test_short_rows_among_long_ones_are_not_padded_to_their_length(build):
    """4 groups of 8 siblings beside 40 replayed rows: two micro-batches."""
    groups, replayed = [(7, [6] * 8)] * 4, [(7, [6])] * 40
    together = shared_prompt(build(groups + replayed), budget=10_000)
    assert [batch.tokens.shape for batch in together] == [(4, 55), (40, 13)]
    assert len(shared_prompt(build(groups + replayed[:1]), budget=10_000)) == 1
    assert len(padded(build([(7, [6, 9, 12])] * 4), budget=10_000)) == 1
