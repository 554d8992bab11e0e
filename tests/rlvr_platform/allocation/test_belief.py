import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.errors import InputError


def test_moments_are_those_of_the_quadrature():
    belief = Belief(np.array([[0.0, 0.5, 1.0], [0.2, 0.2, 0.4]]), np.array([0.25, 0.5, 0.25]))
    assert belief.mean == pytest.approx([0.5, 0.25])
    assert belief.variance_term == pytest.approx([0.125, 0.75 * 0.16 + 0.25 * 0.24])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_certain_belief_is_its_point(p):
    belief = certain(p)
    assert belief.size == len(p)
    assert belief.mean.tolist() == p
    assert belief.variance_term == pytest.approx([x * (1 - x) for x in p])


@pytest.mark.parametrize("bad", [float("nan"), -1e-9, 1.0000001, float("inf")])
def test_what_is_no_probability_is_refused_with_position_and_value(bad):
    with pytest.raises(InputError, match=f"{bad!r} at prompt 2"):
        certain([0.5, 0.5, bad, 0.5])


def test_no_prompts_are_refused():
    with pytest.raises(InputError, match="no prompts"):
        certain([])


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.5, -0.5], [1.0]])
def test_weights_that_are_no_distribution_over_the_nodes_are_a_programming_error(weights):
    with pytest.raises(ValueError, match="weights"):
        Belief(np.full((3, 2), 0.5), np.array(weights))
