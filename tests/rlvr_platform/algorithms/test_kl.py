"""The whole vocabulary is enumerated, so every expectation is exact."""

import pytest
import torch

from rlvr_platform.algorithms.importance import importance
from rlvr_platform.algorithms.kl import kl_penalty, kl_value
from rlvr_platform.config.algorithm import MismatchConfig

ESTIMATORS = ["k1", "k2", "k3"]
V = 7


@pytest.fixture
def distributions():
    """Log-probabilities [V]: policy (from leaf logits), reference, behaviour."""
    generator = torch.Generator().manual_seed(3)
    logits, reference, behaviour = (
        torch.randn(V, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    logits.requires_grad_()
    return (
        logits,
        logits.log_softmax(0),
        reference.log_softmax(0),
        behaviour.log_softmax(0),
    )


def exact_kl(logprobs, reference):
    return (logprobs.exp() * (logprobs - reference)).sum()


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_unbiased_estimators_average_to_the_kl(distributions, estimator):
    _, policy, reference, _ = distributions
    mean = (policy.exp() * kl_value(policy, reference, estimator)).sum()
    assert mean.item() == pytest.approx(exact_kl(policy, reference).item())


def test_estimators_by_hand():
    policy, reference = torch.tensor([-1.0]), torch.tensor([-1.5])
    values = [kl_value(policy, reference, estimator).item() for estimator in ESTIMATORS]
    assert values == pytest.approx([0.5, 0.125, 0.1065307], abs=1e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_expected_gradient_is_that_of_the_kl_on_policy(distributions, estimator):
    logits, policy, reference, _ = distributions
    probabilities = policy.exp().detach()
    penalty = kl_penalty(policy, reference, torch.ones(V), estimator)
    (ours,) = torch.autograd.grad((probabilities * penalty).sum(), logits, retain_graph=True)
    (exact,) = torch.autograd.grad(exact_kl(policy, reference), logits)
    assert torch.allclose(ours, exact, atol=1e-12)


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_expected_gradient_is_that_of_the_kl_off_policy(distributions, estimator, mode):
    logits, policy, reference, behaviour = distributions
    old = (policy + 0.1 * torch.arange(V)).log_softmax(0).detach()
    mismatch = MismatchConfig(mode=mode, cap=1e9)
    ratio = importance(policy, old, behaviour, mismatch).total
    penalty = kl_penalty(policy, reference, ratio, estimator)
    expected = (behaviour.exp() * penalty).sum()
    (ours,) = torch.autograd.grad(expected, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(exact_kl(policy, reference), logits)
    assert torch.allclose(ours, exact, atol=1e-12)
    if estimator != "k2":
        assert expected.item() == pytest.approx(exact_kl(policy, reference).item())


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_differentiating_the_value_would_be_wrong(distributions, estimator):
    logits, policy, reference, _ = distributions
    value = (policy.exp().detach() * kl_value(policy, reference, estimator)).sum()
    (naive,) = torch.autograd.grad(value, logits, retain_graph=True)
    (exact,) = torch.autograd.grad(exact_kl(policy, reference), logits)
    assert (naive - exact).abs().max() > 1e-2


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_value_is_the_weighted_estimator(distributions, estimator):
    _, policy, reference, _ = distributions
    weights = torch.linspace(0.5, 2.0, V, dtype=torch.float64)
    penalty = kl_penalty(policy, reference, weights, estimator)
    assert torch.allclose(penalty, weights * kl_value(policy, reference, estimator), atol=1e-15)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_no_penalty_and_no_gradient_at_the_reference(distributions, estimator):
    logits, policy, _, _ = distributions
    penalty = kl_penalty(policy, policy.detach(), torch.ones(V), estimator)
    (gradient,) = torch.autograd.grad(penalty.sum(), logits)
    assert penalty.abs().max() == 0 and gradient.abs().max() == 0
