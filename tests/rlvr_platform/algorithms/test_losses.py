import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.losses import clipped_surrogate, policy_losses
from rlvr_platform.config.algorithm import AlgorithmConfig, MismatchConfig

LOW, HIGH = 0.2, 0.28


def tensor(*values, grad=False):
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual", "loss", "clipped"),
    [
        (1.0, 2.0, None, -2.0, False),
        (1.28, 1.0, None, -1.28, False),  # exactly at the upper edge
        (1.30, 1.0, None, -1.28, True),
        (0.10, 1.0, None, -0.10, False),  # a gain lost is never clipped
        (0.80, -1.0, None, 0.80, False),  # exactly at the lower edge
        (0.70, -1.0, None, 0.80, True),
        (1.50, -1.0, None, 1.50, False),
        (9.00, -2.0, None, 18.0, False),
        (3.00, -1.0, 3.0, 3.0, False),  # exactly at the dual edge
        (9.00, -2.0, 3.0, 6.0, True),
        (0.70, -1.0, 3.0, 0.80, True),
        (9.00, 1.0, 3.0, -1.28, True),  # the dual bound is for negative advantages
        (9.00, 0.0, 3.0, 0.0, False),
        (0.10, 0.0, None, 0.0, False),
    ],
)
def test_surrogate_by_hand_at_the_clip_edges(ratio, advantage, dual, loss, clipped):
    got_loss, got_clipped = clipped_surrogate(tensor(ratio), tensor(advantage), LOW, HIGH, dual)
    assert got_loss.item() == pytest.approx(loss)
    assert got_clipped.item() is clipped


@pytest.mark.parametrize("dual", [None, 3.0])
@pytest.mark.parametrize("advantage", [-1.5, 0.0, 0.8])
@pytest.mark.parametrize("ratio", [0.3, 0.79, 0.81, 1.0, 1.27, 1.29, 2.9, 3.1])
def test_clipped_means_that_the_gradient_is_zero(ratio, advantage, dual):
    leaf = tensor(ratio, grad=True)
    loss, clipped = clipped_surrogate(leaf, tensor(advantage), LOW, HIGH, dual)
    (gradient,) = torch.autograd.grad(loss.sum(), leaf)
    expected = 0.0 if clipped.item() else -advantage
    assert gradient.item() == pytest.approx(expected)


def scalar_loss(logprob, old, behaviour, advantage, config):
    """The same mathematics, one token at a time, in the form of the papers."""
    if config.mismatch.mode == "bypass":
        weight, ratio = 1.0, math.exp(logprob - behaviour)
    else:
        weight = min(math.exp(old - behaviour), config.mismatch.cap)
        ratio = math.exp(logprob - old)
    bounded = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
    objective = min(ratio * advantage, bounded * advantage)
    if config.dual_clip is not None and advantage < 0:
        objective = max(objective, config.dual_clip * advantage)
    return -weight * objective


configs = st.builds(
    AlgorithmConfig,
    clip_low=st.floats(0.05, 0.9),
    clip_high=st.floats(0.05, 2.0),
    dual_clip=st.none() | st.floats(3.5, 6.0),
    mismatch=st.builds(
        MismatchConfig, mode=st.sampled_from(["truncated", "bypass"]), cap=st.floats(0.5, 4.0)
    ),
)
tokens = st.tuples(
    st.floats(-3, 0), st.floats(-3, 0), st.floats(-3, 0), st.floats(-3, 3, allow_subnormal=False)
)


@given(st.lists(tokens, min_size=1, max_size=20), configs)
def test_losses_equal_a_scalar_reimplementation(rows, config):
    logprobs, old, behaviour, advantages = (tensor(*column) for column in zip(*rows, strict=True))
    losses = policy_losses(logprobs, old, behaviour, advantages, config).loss
    expected = [scalar_loss(*row, config) for row in rows]
    assert losses.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
@pytest.mark.parametrize("dual", [None, 3.0])
def test_gradient_equals_finite_differences(mode, dual):
    generator = np.random.default_rng(0)
    config = AlgorithmConfig(dual_clip=dual, mismatch=MismatchConfig(mode=mode))
    logprobs, old, behaviour = (-generator.exponential(1.0, 200) for _ in range(3))
    advantages = generator.normal(size=200)

    def loss(at):
        columns = (torch.from_numpy(column) for column in (old, behaviour, advantages))
        return policy_losses(at, *columns, config).loss

    leaf = torch.from_numpy(logprobs).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(leaf).sum(), leaf)
    step = 1e-6
    with torch.no_grad():
        numeric = (loss(leaf + step) - loss(leaf - step)) / (2 * step)
    assert torch.allclose(gradient, numeric, atol=1e-6, rtol=1e-6)


def test_first_optimizer_step_is_the_policy_gradient():
    logprobs, advantages = tensor(-1.0, -2.0, -0.5, grad=True), tensor(1.0, -2.0, 0.5)
    old = logprobs.detach()
    losses = policy_losses(logprobs, old, old, advantages, AlgorithmConfig())
    (gradient,) = torch.autograd.grad(losses.loss.sum(), logprobs)
    assert gradient.tolist() == pytest.approx((-advantages).tolist())
    assert not losses.clipped.any() and not losses.truncated.any()
    assert losses.kl_behaviour.abs().max() == 0


def test_diagnostics_carry_no_gradient():
    logprobs = tensor(-1.0, -2.0, grad=True)
    losses = policy_losses(logprobs, logprobs, logprobs, tensor(1.0, -1.0), AlgorithmConfig())
    assert not losses.importance.requires_grad and not losses.kl_behaviour.requires_grad
