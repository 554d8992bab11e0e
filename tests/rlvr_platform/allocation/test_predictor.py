import numpy as np
import pytest

from rlvr_platform.allocation.predictor import (
    Evidence,
    build_predictor,
    check_successes,
    joined,
    part,
    smoothed,
    total_by_prompt,
)
from rlvr_platform.config.allocator import (
    GpConfig,
    MovingAverageConfig,
    NoPredictor,
    PaperGp,
    RidgeConfig,
    RobustGp,
)
from rlvr_platform.errors import InputError

CONFIGS = {
    "robust": GpConfig(mode=RobustGp(window=24)),
    "paper": GpConfig(mode=PaperGp()),
    "moving_average": MovingAverageConfig(),
    "ridge": RidgeConfig(window=24),
    "none": NoPredictor(),
}
EVERY = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
Q, D, B = 60, 8, 16


@pytest.fixture
def embeddings() -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((Q, D))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def outcomes(step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A step with repeated prompts, and with one that has no verdict."""
    draw = np.random.default_rng(step)
    prompts = draw.integers(Q, size=B)
    counts = draw.integers(1, 9, size=B)
    counts[3] = 0
    return prompts, draw.binomial(counts, 0.2 + prompts / Q / 2).astype(np.float64), counts


@EVERY
def test_before_any_observation_all_prompts_are_alike_at_one_half(config, embeddings):
    belief = build_predictor(config, embeddings).predict(np.arange(Q))
    assert np.ptp(belief.nodes, axis=0).max() == 0
    np.testing.assert_allclose(belief.mean, 0.5, atol=1e-12)


@EVERY
def test_outcomes_without_a_verdict_teach_nothing(config, embeddings):
    predictor = build_predictor(config, embeddings)
    predictor.observe(np.arange(4), np.zeros(4), np.zeros(4, dtype=np.int64))
    np.testing.assert_allclose(predictor.predict(np.arange(Q)).mean, 0.5, atol=1e-12)


@EVERY
def test_a_restored_predictor_goes_on_bit_for_bit(config, embeddings):
    through = build_predictor(config, embeddings)
    for step in range(4):
        through.observe(*outcomes(step))
    resumed = build_predictor(config, embeddings)
    resumed.observe(*outcomes(99))
    resumed.restore(through.state())
    for step in range(4, 7):
        through.observe(*outcomes(step))
        resumed.observe(*outcomes(step))
        prompts = np.arange(step, Q)
        expected, got = through.predict(prompts), resumed.predict(prompts)
        assert np.array_equal(expected.nodes, got.nodes)


@EVERY
def test_a_saved_state_does_not_change_afterwards(config, embeddings):
    predictor = build_predictor(config, embeddings)
    predictor.observe(*outcomes(0))
    state = predictor.state()
    before = {name: array.copy() for name, array in state.items()}
    predictor.observe(*outcomes(1))
    assert all(np.array_equal(state[name], before[name]) for name in before)


@pytest.mark.parametrize("name", ["robust", "paper", "ridge"])
@pytest.mark.parametrize("shape", [(Q, D + 1), (Q - 1, D)])
def test_a_state_of_other_embeddings_is_refused_with_both_sizes(name, shape, embeddings):
    state = build_predictor(CONFIGS[name], embeddings).state()
    other = build_predictor(CONFIGS[name], np.ones(shape, np.float32))
    with pytest.raises(InputError, match=rf"{Q} x {D}\n.*{shape[0]} x {shape[1]}"):
        other.restore(state)


def test_a_moving_averages_state_of_another_prompt_count_is_refused(embeddings):
    state = build_predictor(MovingAverageConfig(), embeddings).state()
    with pytest.raises(InputError, match=r"counts \[60\]"):
        build_predictor(MovingAverageConfig(), embeddings[1:]).restore(state)


@pytest.mark.parametrize(("saved", "into"), [("paper", "robust"), ("ridge", "none")])
def test_the_state_of_another_predictor_is_refused(saved, into, embeddings):
    state = build_predictor(CONFIGS[saved], embeddings).state()
    with pytest.raises(InputError):
        build_predictor(CONFIGS[into], embeddings).restore(state)


@EVERY
@pytest.mark.parametrize("successes", [np.nan, 9.0, -1.0])
def test_impossible_outcomes_are_refused(config, embeddings, successes):
    predictor = build_predictor(config, embeddings)
    with pytest.raises(ValueError, match="successes of 8 rollouts at position 1"):
        predictor.observe(np.array([0, 1]), np.array([1.0, successes]), np.array([8, 8]))


@EVERY
def test_a_prompt_that_is_not_there_is_refused(config, embeddings):
    with pytest.raises(ValueError, match="outside"):
        build_predictor(config, embeddings).observe(np.array([Q]), np.ones(1), np.ones(1, int))


def test_evidence_is_the_discounted_sum_over_all_steps():
    decay, evidence = 0.8, Evidence(Q, decay=0.8)
    history = [outcomes(step) for step in range(6)]
    for step in history:
        evidence.add(*step)
    who = np.arange(Q)
    left = evidence.weight(who)
    got = [left * column for column in evidence.totals(who)]
    for index, column in enumerate(got):
        expected = np.zeros(Q)
        for age, step in enumerate(reversed(history)):
            np.add.at(expected, step[0], decay**age * step[index + 1])
        np.testing.assert_allclose(column, expected, atol=1e-12)


def test_the_most_recently_observed_prompts_come_first_and_ties_go_to_the_lowest():
    evidence = Evidence(10, decay=1.0)
    for prompts in ([5, 1, 8], [2, 8]):
        evidence.add(np.array(prompts), np.zeros(len(prompts)), np.ones(len(prompts), int))
    assert evidence.recent(2).tolist() == [2, 8]
    assert evidence.recent(3).tolist() == [1, 2, 8]
    assert evidence.recent(99).tolist() == [1, 2, 5, 8]
    assert evidence.known(np.array([9, 8, 1, 8])).tolist() == [1, 8]


def test_totals_of_a_repeated_prompt_are_added_and_empty_ones_left_out():
    who, won, drawn = total_by_prompt(
        np.array([3, 1, 3, 2]), np.array([1.0, 0.5, 2.0, 0.0]), np.array([2, 1, 4, 0]), 4
    )
    assert who.tolist() == [1, 3]
    assert won.tolist() == [0.5, 3.0]
    assert drawn.tolist() == [1, 6]


def test_smoothing_is_the_mean_of_the_jeffreys_posterior():
    assert smoothed(np.array([0.0, 2.0]), np.array([4.0, 4.0])).tolist() == [0.1, 0.5]


def test_rounding_in_a_sum_of_rewards_is_no_impossible_outcome():
    check_successes(np.array([1.0 + 1e-12]), np.array([1]))


def test_joined_states_come_apart_again():
    one, two = {"a": np.zeros(1)}, {"a": np.ones(2), "x.y": np.ones(3)}
    state = joined(one=one, two=two)
    assert part(state, "one") == one
    assert part(state, "two").keys() == two.keys()
