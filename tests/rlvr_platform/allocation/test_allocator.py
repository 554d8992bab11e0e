import numpy as np
import pytest

from rlvr_platform.allocation.allocator import STATE_FILE, make_allocator
from rlvr_platform.allocation.embeddings import embed
from rlvr_platform.allocation.vip import VipAllocator
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.types import Observation, Prompt

# Prompts that were too long left gaps.
INDICES = np.array([3, 4, 9, 17, 30, 31, 55, 56, 57, 80, 99, 120])
BATCH = np.array([99, 3, 57, 31, 17, 120])
BUDGET = 48
PREDICTORS = ("gp", "moving_average", "ridge", "none")


def config(allocator):
    tree = {
        "steps": 9,
        "model": {"kind": "pretrained", "path": "m"},
        "data": {"train": {"kind": "arithmetic"}},
        "verifier": {"use": {"kind": "exact"}},
        "allocator": allocator,
    }
    return ExperimentConfig.model_validate(tree, strict=False)


def vip(dimension=24, **changes):
    embedding = {"kind": "ngrams", "dimension": dimension}
    return config({"kind": "vip", "embedding": embedding, **changes})


def prompts(indices=INDICES):
    return [
        Prompt(i, f"what is {i} * {i % 7 + 2}?", np.array([i], np.int32), "", "maths")
        for i in indices.tolist()
    ]


def observation(seed):
    """Outcomes of six random prompts: the higher the index, the likelier a success."""
    draw = np.random.default_rng(seed)
    seen = draw.permutation(INDICES)[:6]
    counts = draw.integers(0, 17, 6)
    return Observation(
        prompts=seen,
        successes=draw.binomial(counts, seen / 125).astype(float),
        counts=counts,
        tokens=counts * draw.integers(5, 50, 6),
    )


def taught(settings, steps=range(4)):
    allocator = make_allocator(settings, prompts(), "no model")
    for step in steps:
        allocator.observe(observation(step))
    return allocator


def assert_same(one, other):
    assert one.counts.tolist() == other.counts.tolist()
    for name in ("predicted", "baseline", "expected_collapse"):
        assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    assert one.fallback == other.fallback


def test_uniform_gives_every_prompt_the_same_and_predicts_nothing(tmp_path):
    allocator = taught(config({"kind": "uniform"}))
    allocator.save(tmp_path)
    allocator.load(tmp_path)
    allocation = allocator.allocate(BATCH, BUDGET)
    assert allocation.counts.tolist() == [8] * 6
    assert np.isnan(allocation.predicted).all() and np.isnan(allocation.baseline).all()
    assert np.isnan(allocation.expected_collapse) and allocation.fallback == ""


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_prompts_are_addressed_by_their_index_whatever_gaps_there_are(predictor):
    settings = vip(predictor={"kind": predictor})
    embeddings = embed(settings.allocator.embedding, prompts(), "no model")
    by_row = VipAllocator(settings.allocator, embeddings, ("maths",) * len(INDICES))
    row = {index: place for place, index in enumerate(INDICES.tolist())}
    for step in range(4):
        seen = observation(step)
        rows = np.array([row[i] for i in seen.prompts.tolist()])
        by_row.observe(rows, seen.successes, seen.counts)
        by_row.observe_lengths(rows, seen.tokens.astype(float), seen.counts)
    rows = np.array([row[i] for i in BATCH.tolist()])
    assert_same(taught(settings).allocate(BATCH, BUDGET), by_row.allocate(rows, BUDGET))


def test_vip_spends_the_budget_within_bounds_where_outcomes_are_mixed():
    allocator = make_allocator(vip(), prompts(), "no model")
    assert allocator.allocate(BATCH, BUDGET).counts.tolist() == [8] * 6
    rates = np.array([1.0, 0.0, 0.5, 1.0, 0.0, 0.5])
    for _ in range(3):
        counts = np.full(6, 16)
        allocator.observe(Observation(BATCH, rates * 16, counts, counts * 10))
    allocation = allocator.allocate(BATCH, BUDGET)
    assert allocation.counts.sum() == BUDGET
    assert allocation.counts.min() >= 4 and allocation.counts.max() <= 16
    assert allocation.counts[rates == 0.5].min() > allocation.counts[rates != 0.5].max()
    assert np.argsort(allocation.predicted)[[0, -1]].tolist() in ([1, 0], [1, 3], [4, 0], [4, 3])
    assert allocation.fallback == ""


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_loaded_allocator_goes_on_as_the_saved_one(tmp_path, predictor):
    settings = vip(predictor={"kind": predictor})
    allocator = taught(settings)
    allocator.save(tmp_path)
    again = make_allocator(settings, prompts(), "no model")
    again.load(tmp_path)
    for step in range(10, 14):
        assert_same(again.allocate(BATCH, BUDGET), allocator.allocate(BATCH, BUDGET))
        allocator.observe(observation(step)), again.observe(observation(step))


def test_lengths_are_part_of_what_is_saved(tmp_path):
    budget = {"kind": "cvxpy", "constraints": [{"kind": "token_budget", "tokens": 1200}]}
    allocator = taught(vip(solver=budget))
    allocator.save(tmp_path)
    again = make_allocator(vip(solver=budget), prompts(), "no model")
    unknown = again.allocate(BATCH, BUDGET)
    assert "length" in unknown.fallback
    again.load(tmp_path)
    assert_same(again.allocate(BATCH, BUDGET), allocator.allocate(BATCH, BUDGET))
    assert "length" not in again.allocate(BATCH, BUDGET).fallback


@pytest.mark.parametrize("index", [-1, 0, 5, 58, 121])
def test_an_index_that_no_prompt_has_is_refused(index):
    allocator = make_allocator(vip(), prompts(), "no model")
    with pytest.raises(ValueError, match="belongs to no prompt"):
        allocator.allocate(np.array([3, index]), 16)
    one = np.ones(1, np.int64)
    with pytest.raises(ValueError, match="belongs to no prompt"):
        allocator.observe(Observation(np.array([index]), np.ones(1), one, one))


def test_a_budget_outside_the_bounds_names_the_legal_range():
    with pytest.raises(ConfigError, match="24"):
        make_allocator(vip(), prompts(), "no model").allocate(BATCH, 23)


@pytest.fixture
def saved(tmp_path):
    taught(vip()).save(tmp_path)
    return tmp_path


def refusal(folder, settings=None, known=INDICES):
    allocator = make_allocator(settings or vip(), prompts(known), "no model")
    with pytest.raises(InputError) as caught:
        allocator.load(folder)
    assert caught.value.wanted and caught.value.fix
    return str(caught.value)


def test_a_missing_state_is_bad_input(tmp_path):
    assert STATE_FILE in refusal(tmp_path)


def test_a_state_cut_anywhere_is_bad_input(saved):
    whole = (saved / STATE_FILE).read_bytes()
    for end in [*range(0, len(whole), 211), len(whole) - 1]:
        (saved / STATE_FILE).write_bytes(whole[:end])
        assert STATE_FILE in refusal(saved)


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04", b"\x93NUMPY", b"cpickle\n."])
def test_another_files_content_is_bad_input(saved, content):
    (saved / STATE_FILE).write_bytes(content)
    assert STATE_FILE in refusal(saved)


def test_a_changed_byte_is_bad_input_or_changes_nothing(saved):
    whole, chance = (saved / STATE_FILE).read_bytes(), np.random.default_rng(0)
    expected = taught(vip()).allocate(BATCH, BUDGET)
    for place in chance.integers(0, len(whole), 100).tolist():
        mask = int(chance.integers(1, 256))
        changed = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
        (saved / STATE_FILE).write_bytes(changed)
        allocator = make_allocator(vip(), prompts(), "no model")
        try:
            allocator.load(saved)
        except InputError:
            continue
        assert_same(allocator.allocate(BATCH, BUDGET), expected)


def test_a_state_of_another_embedding_predictor_or_prompt_set_is_bad_input(saved):
    assert "embedding size 12 x 24" in refusal(saved, vip(dimension=25))
    assert "embedding size 12 x 24" in refusal(saved, known=INDICES[:-1])
    refusal(saved, vip(predictor={"kind": "moving_average"}))
