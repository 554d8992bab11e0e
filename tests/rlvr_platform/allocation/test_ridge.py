import numpy as np

from rlvr_platform.allocation.predictor import logit, smoothed
from rlvr_platform.allocation.ridge import RidgePredictor
from rlvr_platform.config.allocator import RidgeConfig

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 5)).astype(np.float32)


def test_it_equals_the_augmented_least_squares_problem():
    predictor = RidgePredictor(RidgeConfig(penalty=0.7), X)
    prompts, counts = np.arange(25), np.full(25, 8)
    successes = RNG.binomial(8, 0.4, 25).astype(float)
    predictor.observe(prompts, successes, counts)

    design = np.column_stack((X[prompts].astype(np.float64), np.ones(25)))
    penalty = np.sqrt(0.7) * np.eye(5, 6)
    target = np.concatenate((logit(smoothed(successes, counts)), np.zeros(5)))
    solution = np.linalg.lstsq(np.vstack((design, penalty)), target, rcond=None)[0]
    expected = np.column_stack((X, np.ones(40))) @ solution
    np.testing.assert_allclose(logit(predictor.predict(np.arange(40)).mean), expected, atol=1e-9)


def test_only_the_window_and_each_prompts_last_outcome_count():
    counts, wins = np.full(10, 4), np.arange(10) % 5 * 1.0
    long, short = (RidgePredictor(RidgeConfig(window=10), X) for _ in range(2))
    long.observe(np.arange(20, 30), wins[::-1].copy(), counts)
    long.observe(np.arange(10), wins[::-1].copy(), counts)
    long.observe(np.arange(10), wins, counts)
    short.observe(np.arange(10), wins, counts)
    everything = np.arange(40)
    assert np.array_equal(long.predict(everything).nodes, short.predict(everything).nodes)
