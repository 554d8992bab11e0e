import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlvr_platform.batching.sharding import plan_update, shard, split_minibatches

shapes = st.lists(
    st.tuples(st.integers(1, 9), st.lists(st.integers(1, 12), min_size=1, max_size=6)),
    min_size=1,
    max_size=8,
)
with_fixtures = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30
)


@pytest.fixture
def build(make_group, make_batch):
    return lambda shapes: make_batch([make_group(i, *shape) for i, shape in enumerate(shapes)])


def row_keys(batch):
    """What identifies a row wherever it goes, with all its columns."""
    ids = [batch.handles[group].ticket.group_id for group in batch.group]
    columns = (batch.sibling, batch.advantage, batch.weight, batch.length, batch.trained_tokens)
    return list(zip(ids, *(column.tolist() for column in columns), strict=True))


@with_fixtures
@given(shapes, st.integers(1, 5))
def test_every_row_goes_to_exactly_one_rank_with_its_columns(build, shapes, ranks):
    batch = build(shapes)
    shards = shard(batch, ranks)
    assert len(shards) == ranks
    assert sorted(key for part in shards for key in row_keys(part)) == sorted(row_keys(batch))


@with_fixtures
@given(shapes, st.integers(1, 5))
def test_groups_stay_whole_and_shards_keep_only_their_handles(build, shapes, ranks):
    shards = shard(build(shapes), ranks)
    owners = [handle.ticket.group_id for part in shards for handle in part.handles]
    assert sorted(owners) == list(range(len(shapes)))
    for part in shards:
        assert sorted(set(part.group.tolist())) == list(range(len(part.handles)))


@with_fixtures
@given(shapes, st.integers(1, 5))
def test_the_busiest_rank_exceeds_the_lightest_by_at_most_one_group(build, shapes, ranks):
    batch = build(shapes)
    loads = [int(part.length.sum()) for part in shard(batch, ranks)]
    heaviest = np.bincount(batch.group, weights=batch.length).max()
    assert max(loads) - min(loads) <= heaviest


def test_longest_groups_are_placed_first(build):
    batch = build([(1, [n]) for n in (2, 3, 4, 5, 6, 8)])
    assert [int(part.length.sum()) for part in shard(batch, 2)] == [17, 17]


def test_ranks_without_a_group_get_no_rows(build):
    shards = shard(build([(2, [3, 4])]), 3)
    assert [part.rows for part in shards] == [2, 0, 0]
    assert [len(part.handles) for part in shards] == [1, 0, 0]


@with_fixtures
@given(shapes, st.integers(1, 5), st.integers(0, 3))
def test_minibatches_partition_the_rows_and_none_is_empty(build, shapes, count, seed):
    batch = build(shapes)
    parts = split_minibatches(batch, count, seed)
    assert len(parts) == min(count, len(shapes))
    assert all(part.rows for part in parts)
    assert sorted(key for part in parts for key in row_keys(part)) == sorted(row_keys(batch))


def test_minibatches_of_equal_groups_are_equal_and_follow_the_seed(build):
    batch = build([(2, [3] * 4)] * 12)

    def members(seed):
        parts = split_minibatches(batch, 3, seed)
        assert [part.rows for part in parts] == [16, 16, 16]
        return [[handle.ticket.group_id for handle in part.handles] for part in parts]

    assert members(0) == members(0)
    assert members(0) != members(1)


def test_one_minibatch_is_the_batch_itself(build):
    batch = build([(2, [3, 1]), (1, [2])])
    (only,) = split_minibatches(batch, 1, seed=5)
    assert row_keys(only) == row_keys(batch) and only.handles == batch.handles


def test_each_optimizer_step_has_its_own_denominator_over_all_ranks(build):
    batch = build([(2, [3, 5]), (1, [2]), (4, [7, 7, 1]), (3, [6])])
    plan = plan_update(batch, 2, 3, 0, "token_mean", constant_length=8)
    assert len(plan) == 2 and all(len(shards) == 3 for shards in plan)
    for shards in plan:
        tokens = sum(int(part.trained_tokens.sum()) for part in shards)
        for part in shards:
            ids = [part.handles[group].ticket.group_id for group in part.group]
            rows = [
                np.flatnonzero((batch.group == group) & (batch.sibling == sibling))[0]
                for group, sibling in zip(ids, part.sibling, strict=True)
            ]
            assert part.weight == pytest.approx(batch.weight[rows] / tokens)


def test_a_batch_without_rows_has_no_optimizer_step(build):
    (_, nothing) = shard(build([(2, [3])]), 2)
    assert plan_update(nothing, 2, 2, 0, "token_mean", constant_length=8) == []
