import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.config.learner import OptimizerConfig
from rlvr_platform.schedule import learning_rate


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        ("constant", 0, 0.25),
        ("constant", 2, 0.75),
        ("constant", 3, 1.0),
        ("constant", 12, 1.0),
        ("linear", 3, 1.0),
        ("linear", 8, 0.5),
        ("linear", 13, 0.0),
        ("cosine", 3, 1.0),
        ("cosine", 8, 0.5),
        ("cosine", 13, 0.0),
    ],
)
def test_worked_values_of_a_warmup_of_3_and_a_decay_of_10(
    schedule: str, step: int, expected: float
) -> None:
    config = OptimizerConfig(learning_rate=1.0, schedule=schedule, warmup_steps=3)
    assert learning_rate(step, 13, config) == pytest.approx(expected)


@given(st.sampled_from(["constant", "linear", "cosine"]), st.integers(0, 20), st.integers(1, 50))
def test_every_step_of_the_run_has_a_positive_rate_up_to_the_peak(
    schedule: str, warmup: int, after: int
) -> None:
    config = OptimizerConfig(learning_rate=0.1, schedule=schedule, warmup_steps=warmup)
    total = warmup + after
    rates = [learning_rate(step, total, config) for step in range(total)]
    assert min(rates) > 0
    assert max(rates) == pytest.approx(0.1)
