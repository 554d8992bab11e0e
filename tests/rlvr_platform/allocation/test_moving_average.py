import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.allocation.moving_average import MovingAverage, PooledMean
from rlvr_platform.config.allocator import MovingAverageConfig

outcomes = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 8), st.integers(0, 8)).map(
        lambda t: (t[0], float(min(t[1:])), max(t[1:]))
    ),
    min_size=1,
    max_size=6,
)


@given(st.lists(outcomes, min_size=1, max_size=5))
def test_without_decay_it_is_the_plain_mean_with_the_prior_counted_in(history):
    average = MovingAverage(MovingAverageConfig(decay=1.0, prior_rollouts=2.0), 4)
    flat = np.array([entry for step in history for entry in step])
    for step in history:
        prompts, successes, counts = zip(*step, strict=True)
        average.observe(np.array(prompts), np.array(successes), np.array(counts))
    overall = flat[:, 1].sum() / flat[:, 2].sum() if flat[:, 2].sum() else 0.5
    for prompt, p in enumerate(average.predict(np.arange(4)).mean):
        own = flat[flat[:, 0] == prompt]
        expected = (own[:, 1].sum() + 2 * overall) / (own[:, 2].sum() + 2)
        assert p == pytest.approx(expected, abs=1e-12)


def test_a_prompt_never_seen_gets_the_present_level_of_all():
    average = MovingAverage(MovingAverageConfig(decay=0.5), 3)
    for successes in (0.0, 8.0):
        average.observe(np.array([0]), np.array([successes]), np.array([8]))
    assert average.predict(np.array([2])).mean[0] == pytest.approx(8 / 12)


def test_it_follows_a_policy_that_improves():
    average = MovingAverage(MovingAverageConfig(decay=0.5), 1)
    for successes in (0.0, 0.0, 8.0, 8.0, 8.0):
        average.observe(np.array([0]), np.array([successes]), np.array([8]))
    assert average.predict(np.array([0])).mean[0] > 0.85


def test_a_pooled_mean_takes_sums_of_any_size_and_knows_nothing_at_first():
    lengths = PooledMean(2, decay=1.0, prior_rollouts=1.0)
    assert np.isnan(lengths.at(np.arange(2))).all()
    lengths.add(np.array([0]), np.array([3000.0]), np.array([2]))
    assert lengths.at(np.arange(2)).tolist() == [1500.0, 1500.0]
