import dataclasses
import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.config.replay import PrioritisedReuse
from rlvr_platform.errors import InputError
from rlvr_platform.replay.experience import ExperienceReplay
from rlvr_platform.replay.storage import (
    COLUMNS_FILE,
    LINES_FILE,
    STATE_FILE,
    load_experience,
    read_groups,
    save_experience,
    write_groups,
)
from rlvr_platform.types import (
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)

ARRAYS = ("tokens", "offsets", "loss_mask", "logprobs", "versions", "finish")
texts = st.text(st.characters(exclude_categories=()), max_size=8)
values = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts | st.lists(texts)
verdicts = st.builds(
    Verdict,
    outcome=st.sampled_from(Outcome),
    reward=st.none() | st.floats(-10, 10),
    extracted=texts,
    rule=texts,
    seconds=st.floats(0, 1e6),
)


@st.composite
def graded_groups(draw):
    """A group of 1 to 5 siblings of 1 to 6 tokens, prompt of 0 to 5."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    size, total = len(lengths), sum(lengths)
    generator = np.random.default_rng(draw(st.integers(0, 999)))
    prompt = Prompt(
        index=draw(st.integers(0, 2**40)),
        text=draw(texts),
        tokens=generator.integers(0, 2**31 - 1, draw(st.integers(0, 5)), dtype=np.int32),
        gold=draw(texts),
        source=draw(texts),
        options=draw(st.dictionaries(texts, values, max_size=3)),
        origin=draw(texts),
    )
    group = RolloutGroup(
        ticket=Ticket(
            draw(st.integers(0, 2**40)), draw(st.integers(1, 99)), prompt, size, seed=2**32 - 1
        ),
        tokens=generator.integers(0, 2**31 - 1, total, dtype=np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        loss_mask=generator.random(total) < 0.5,
        logprobs=generator.normal(size=total).astype(np.float32),
        versions=generator.integers(0, 99, total, dtype=np.int32),
        finish=generator.integers(0, 3, size).astype(np.uint8),
        texts=tuple(draw(st.lists(texts, min_size=size, max_size=size))),
    )
    judged = tuple(draw(st.lists(verdicts, min_size=size, max_size=size)))
    return GradedGroup(summarise(group, draw(st.floats(0, 1e4))), judged, None), group


def plain(prompt):
    return {**dataclasses.asdict(prompt), "tokens": prompt.tokens.tolist()}


def assert_same_group(got, wanted):
    (judged, group), (own, original) = got, wanted
    assert judged.handle is group and judged.verdicts == own.verdicts
    assert group.texts == original.texts
    for name in ARRAYS:
        array, expected = getattr(group, name), getattr(original, name)
        assert array.dtype == expected.dtype and np.array_equal(array, expected), name
    for field in dataclasses.fields(own.summary):
        array, expected = (getattr(of.summary, field.name) for of in (judged, own))
        assert np.array_equal(array, expected), field.name
        assert np.asarray(array).dtype == np.asarray(expected).dtype, field.name
    assert group.ticket.prompt.tokens.dtype == np.int32
    assert plain(group.ticket.prompt) == plain(original.ticket.prompt)
    names = ("group_id", "step", "n", "seed")
    assert [getattr(group.ticket, n) for n in names] == [getattr(original.ticket, n) for n in names]


@settings(max_examples=60)
@given(st.lists(graded_groups(), max_size=5))
def test_what_was_written_is_read(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("groups")
    write_groups(folder, [judged for judged, _ in pairs], [group for _, group in pairs])
    restored = read_groups(folder)
    assert len(restored) == len(pairs)
    for got, wanted in zip(restored, pairs, strict=True):
        assert_same_group(got, wanted)


REUSE = PrioritisedReuse(start_step=1, max_age=5)


def pair(group_id, size):
    """A group whose tokens tell its id, and its verdicts."""
    prompt = Prompt(group_id, f"p{group_id}", np.arange(3, dtype=np.int32), "1", "s")
    tokens = np.full(2 * size, group_id, np.int32)
    group = RolloutGroup(
        ticket=Ticket(group_id, 1, prompt, size, 0),
        tokens=tokens,
        offsets=np.arange(0, 2 * size + 1, 2, dtype=np.int64),
        loss_mask=np.ones(2 * size, bool),
        logprobs=np.full(2 * size, -0.5, np.float32),
        versions=np.full(2 * size, group_id % 3, np.int32),
        finish=np.zeros(size, np.uint8),
        texts=("a",) * size,
    )
    rewards = [float(i % 2) for i in range(size)]
    judged = tuple(Verdict(Outcome.WRONG, reward, "", "r", 0.1) for reward in rewards)
    return GradedGroup(summarise(group, 1.0), judged, group), group


def stored(sizes):
    """A buffer that has inserted, evicted and drawn, as in a run."""
    replay = ExperienceReplay(REUSE, seed=3)
    for group_id, size in enumerate(sizes):
        judged, _ = pair(group_id, size)
        scores = np.where(np.arange(size) % 2, 1.0 + group_id, -0.5)
        priorities = np.where(np.arange(size) == 0, np.nan, np.abs(scores))
        replay.keep(judged, scores, priorities)
    replay.evict(6)
    replay.draw(2, 6, 3)
    return replay


def save(replay, folder):
    state, judged = replay.state()
    save_experience(folder, state, judged, [own.handle for own in judged])


def assert_same_draws(one, other):
    for step in (3, 4, 5):
        drawn, again = (replay.draw(step, 6, 5) for replay in (one, other))
        for field in dataclasses.fields(drawn):
            own, wanted = getattr(drawn, field.name), getattr(again, field.name)
            if field.name != "handles":
                assert np.array_equal(own, wanted), field.name
        for a, b in zip(drawn.handles, again.handles, strict=True):
            assert np.array_equal(a.handle.tokens, b.handle.tokens)


@settings(max_examples=25)
@given(st.lists(st.integers(2, 6), max_size=8))
def test_a_saved_buffer_goes_on_with_identical_draws_and_evictions(tmp_path_factory, sizes):
    folder = tmp_path_factory.mktemp("buffer")
    replay, again = stored(sizes), ExperienceReplay(REUSE, seed=3)
    save(replay, folder)
    state, restored = load_experience(folder)
    again.restore(state, [judged for judged, _ in restored])
    assert (again.rollouts, again.groups, again.nbytes) == (
        replay.rollouts,
        replay.groups,
        replay.nbytes,
    )
    assert_same_draws(replay, again)
    judged, _ = pair(50, 3)
    for buffer in (replay, again):
        buffer.keep(judged, np.array([1.0, -1.0, 0.5]), np.array([1.0, 1.0, 0.5]))
    assert replay.evict(7) == again.evict(7)
    replay.evict(6), again.evict(6)
    assert_same_draws(replay, again)


@pytest.fixture
def saved(tmp_path):
    """Four groups of 3, 4, 5 and 2 siblings; two more were too old."""
    save(stored([2, 3, 4, 2, 5, 2]), tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [STATE_FILE, COLUMNS_FILE, LINES_FILE])
def test_a_missing_file_is_bad_input(saved, name):
    (saved / name).unlink()
    with pytest.raises(InputError, match="cannot read the replay buffer"):
        load_experience(saved)


@pytest.mark.parametrize("name", [STATE_FILE, COLUMNS_FILE])
def test_a_file_cut_anywhere_is_bad_input(saved, name):
    whole = (saved / name).read_bytes()
    for end in [*range(0, len(whole), 97), len(whole) - 1]:
        (saved / name).write_bytes(whole[:end])
        with pytest.raises(InputError, match="cannot read the replay buffer"):
            load_experience(saved)


@pytest.mark.parametrize("name", [STATE_FILE, COLUMNS_FILE])
def test_a_changed_byte_is_bad_input_or_changes_nothing(saved, name):
    whole, chance = (saved / name).read_bytes(), np.random.default_rng(0)
    state, restored = load_experience(saved)
    for place in chance.integers(0, len(whole), 150).tolist():
        mask = int(chance.integers(1, 256))
        changed = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
        (saved / name).write_bytes(changed)
        try:
            other_state, others = load_experience(saved)
            ExperienceReplay(REUSE, seed=3).restore(other_state, others)
        except InputError:
            continue
        assert all(np.array_equal(other_state[key], state[key]) for key in state)
        for got, wanted in zip(others, restored, strict=True):
            assert_same_group(got, wanted)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"PK\x03\x04", b"\x93NUMPY", b"cpickle\n."])
@pytest.mark.parametrize("name", [STATE_FILE, COLUMNS_FILE, LINES_FILE])
def test_another_files_content_is_bad_input(saved, name, content):
    (saved / name).write_bytes(content)
    with pytest.raises(InputError, match="cannot read the replay buffer"):
        load_experience(saved)


@pytest.mark.parametrize("line", ["", "3", "[]", "{}", "null", '{"ticket": 3}', "{"])
def test_a_line_of_another_shape_is_bad_input(saved, line):
    lines = (saved / LINES_FILE).read_text().splitlines()
    (saved / LINES_FILE).write_text("\n".join([line, *lines[1:]]) + "\n")
    with pytest.raises(InputError, match="cannot read the replay buffer"):
        load_experience(saved)


@pytest.mark.parametrize("column", ["texts", "verdicts"])
def test_a_line_with_another_number_of_siblings_is_bad_input(saved, column):
    lines = [json.loads(line) for line in (saved / LINES_FILE).read_text().splitlines()]
    lines[0][column].pop()
    (saved / LINES_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match="group of 3"):
        load_experience(saved)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [(STATE_FILE, (3, 4, 5, 2)), (LINES_FILE, (3, 4, 5, 2)), (COLUMNS_FILE, (5, 4, 3, 2))],
)
def test_files_of_two_saves_are_bad_input(saved, tmp_path_factory, name, sizes):
    """Of as many groups, but not the same ones."""
    other, replay = tmp_path_factory.mktemp("other"), ExperienceReplay(REUSE, seed=3)
    for group_id, size in enumerate(sizes, 60):
        judged, _ = pair(group_id, size)
        replay.keep(judged, np.arange(size) - 0.5, np.ones(size))
    save(replay, other)
    shutil.copy(other / name, saved / name)
    with pytest.raises(InputError, match="cannot read the replay buffer"):
        load_experience(saved)


def test_nothing_in_a_file_is_executed(saved):
    np.savez(saved / STATE_FILE, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="cannot read the replay buffer"):
        load_experience(saved)
