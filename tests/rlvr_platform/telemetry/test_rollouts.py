from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.errors import InputError
from rlvr_platform.telemetry.rollouts import SCHEMA, Recorded, read_rollouts, write_rollouts
from rlvr_platform.types import (
    Fate,
    Finish,
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)


def make_group(group_id: int, lengths: list[int], seed: int = 0) -> RolloutGroup:
    rng, total = np.random.default_rng([seed, group_id]), sum(lengths)
    prompt = Prompt(group_id * 10, f"{group_id}+1=", np.arange(3, dtype=np.int32), "42", "sums")
    return RolloutGroup(
        ticket=Ticket(group_id, step=5, prompt=prompt, n=len(lengths), seed=0),
        tokens=rng.integers(0, 1000, total, dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        loss_mask=rng.random(total) < 0.8,
        logprobs=-rng.random(total, dtype=np.float32),
        versions=rng.integers(3, 6, total, dtype=np.int32),
        finish=rng.integers(0, 3, len(lengths)).astype(np.uint8),
        texts=tuple(f"text é {i}" for i in range(len(lengths))),
    )


OUTCOMES = list(Outcome)


def make_graded(group: RolloutGroup) -> GradedGroup:
    rewards = {Outcome.CORRECT: 1.0, Outcome.WRONG: 0.0, Outcome.NO_ANSWER: 0.0}
    outcomes = [OUTCOMES[i % len(OUTCOMES)] for i in range(group.size)]
    verdicts = tuple(
        Verdict(outcome, rewards.get(outcome), f"x{i}", "rule", 0.25)
        for i, outcome in enumerate(outcomes)
    )
    return GradedGroup(summarise(group, 1.0), verdicts, group)


def whole(group, advantages, fates, graded=None):
    everyone = np.arange(group.size)
    return Recorded(group, graded or make_graded(group), advantages, fates, everyone)


def write(path, groups):
    advantages = [np.linspace(-1, 1, g.size, dtype=np.float32) for g in groups]
    fates = [np.arange(g.size) % 3 for g in groups]
    parts = zip(groups, advantages, fates, strict=True)
    write_rollouts(path, [whole(group, advantage, fate) for group, advantage, fate in parts])
    return advantages, fates


@settings(max_examples=25, deadline=None)
@given(sizes=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), max_size=4))
def test_what_is_written_is_read_back_row_by_row(tmp_path_factory, sizes):
    path = tmp_path_factory.mktemp("x") / "step-000005.parquet"
    groups = [make_group(i, lengths) for i, lengths in enumerate(sizes)]
    advantages, fates = write(path, groups)
    table = read_rollouts(path)
    assert table.schema == SCHEMA
    rows = iter(table.to_pylist())
    for group, advantage, fate in zip(groups, advantages, fates, strict=True):
        verdicts = make_graded(group).verdicts
        for i in range(group.size):
            row, own = next(rows), group.sibling(i)
            assert (row["step"], row["group_id"], row["sibling"]) == (5, group.ticket.group_id, i)
            assert row["prompt_index"] == group.ticket.prompt.index
            assert (row["source"], row["gold"]) == ("sums", "42")
            assert row["prompt"] == group.ticket.prompt.text
            assert row["completion"] == group.texts[i]
            assert row["tokens"] == group.tokens[own].tolist()
            assert row["loss_mask"] == group.loss_mask[own].tolist()
            assert row["logprobs"] == group.logprobs[own].tolist()
            assert row["first_version"] == group.versions[own].min()
            assert row["last_version"] == group.versions[own].max()
            assert row["finish"] == Finish(group.finish[i]).name
            assert row["verdict"] == verdicts[i].outcome.value
            assert (row["extracted"], row["rule"]) == (f"x{i}", "rule")
            assert row["verify_seconds"] == 0.25
            assert row["reward"] == verdicts[i].reward
            assert row["advantage"] == advantage[i]
            assert row["fate"] == Fate(fate[i]).name
    assert next(rows, None) is None


def test_read_only_arrays_as_they_come_from_the_object_store_are_written(tmp_path):
    group = make_group(1, [2, 3])
    for name in ("tokens", "offsets", "loss_mask", "logprobs", "versions", "finish"):
        getattr(group, name).setflags(write=False)
    write(tmp_path / "a.parquet", [group])
    assert read_rollouts(tmp_path / "a.parquet").num_rows == 2


def test_an_absent_advantage_and_an_empty_completion_are_null(tmp_path):
    group = make_group(1, [2, 2])
    graded = make_graded(group)
    empty = replace(group, offsets=np.array([0, 4, 4]))
    recorded = whole(empty, np.array([np.nan, 0.5]), np.array([2, 0]), graded)
    write_rollouts(tmp_path / "a.parquet", [recorded])
    rows = read_rollouts(tmp_path / "a.parquet").to_pylist()
    assert [r["advantage"] for r in rows] == [None, 0.5]
    assert [r["tokens"] for r in rows] == [group.tokens.tolist(), []]
    assert rows[1]["first_version"] is None


def test_parts_that_do_not_belong_together_are_refused_and_nothing_is_written(tmp_path):
    one, other = make_group(1, [2, 2]), make_group(2, [2, 2])
    two = np.zeros(2)
    path = tmp_path / "a.parquet"
    with pytest.raises(ValueError, match="group 1"):
        write_rollouts(path, [whole(one, two, two, make_graded(other))])
    with pytest.raises(ValueError, match="group 1"):
        write_rollouts(path, [whole(one, np.zeros(3), two)])
    assert not path.exists()


def test_only_the_siblings_asked_for_are_written(tmp_path):
    group = make_group(1, [2, 3, 4])
    recorded = replace(
        whole(group, np.zeros(3), np.full(3, Fate.REPLAYED)), siblings=np.array([2, 0])
    )
    write_rollouts(tmp_path / "a.parquet", [recorded])
    rows = read_rollouts(tmp_path / "a.parquet").to_pylist()
    assert [(row["sibling"], len(row["tokens"]), row["fate"]) for row in rows] == [
        (2, 4, "REPLAYED"),
        (0, 2, "REPLAYED"),
    ]


@pytest.mark.parametrize("content", [None, b"no parquet"])
def test_a_file_that_is_no_rollouts_file_is_bad_input(tmp_path, content):
    path = tmp_path / "a.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match="cannot read"):
        read_rollouts(path)


def test_a_file_from_before_options_were_recorded_has_none(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, [make_group(0, [2])])
    pq.write_table(pq.read_table(path).drop_columns(["options"]), path)
    assert read_rollouts(path)["options"].to_pylist() == ["{}"]
