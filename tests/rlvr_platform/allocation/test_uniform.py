import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.allocation.uniform import uniform
from rlvr_platform.errors import ConfigError


@given(st.integers(1, 200), st.integers(0, 5000))
def test_counts_sum_to_the_budget_and_differ_by_at_most_one(prompts: int, extra: int) -> None:
    counts = uniform(prompts, prompts + extra)
    assert counts.sum() == prompts + extra
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(("prompts", "budget"), [(0, 4), (5, 4)])
def test_a_budget_that_leaves_prompts_without_rollouts_is_refused(
    prompts: int, budget: int
) -> None:
    with pytest.raises(ConfigError):
        uniform(prompts, budget)
