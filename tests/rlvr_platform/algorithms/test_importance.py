import math

import pytest
import torch

from rlvr_platform.algorithms.importance import behaviour_divergence, importance
from rlvr_platform.config.algorithm import MismatchConfig

LOGPROBS = torch.tensor([-1.0, -0.5, -2.0, -0.1], dtype=torch.float64, requires_grad=True)
OLD = torch.tensor([-1.1, -0.4, -1.5, -0.2], dtype=torch.float64)
BEHAVIOUR = torch.tensor([-1.0, -0.6, -4.0, -200.0], dtype=torch.float64)


def test_truncated_weight_is_old_over_behaviour_up_to_the_cap():
    split = importance(LOGPROBS, OLD, BEHAVIOUR, MismatchConfig(mode="truncated", cap=2.0))
    expected = [math.exp(-0.1), math.exp(0.2), 2.0, 2.0]
    assert split.weight.tolist() == pytest.approx(expected)
    assert split.truncated.tolist() == [False, False, True, True]
    assert split.ratio.tolist() == pytest.approx((LOGPROBS - OLD).exp().tolist())
    assert split.total.tolist() == pytest.approx((split.weight * split.ratio).tolist())


def test_bypass_is_one_ratio_against_the_behaviour_and_ignores_old():
    mismatch = MismatchConfig(mode="bypass")
    split = importance(LOGPROBS, OLD, BEHAVIOUR, mismatch)
    other = importance(LOGPROBS, OLD * float("nan"), BEHAVIOUR, mismatch)
    assert torch.equal(split.ratio, (LOGPROBS - BEHAVIOUR).exp())
    assert torch.equal(split.ratio, other.ratio) and torch.equal(split.total, other.total)
    assert (split.weight == 1).all() and not split.truncated.any()


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
def test_gradient_flows_through_the_ratio_only(mode):
    old = OLD.clone().requires_grad_()
    split = importance(LOGPROBS, old, BEHAVIOUR, MismatchConfig(mode=mode))
    assert split.ratio.requires_grad
    assert not split.weight.requires_grad and not split.total.requires_grad


def test_truncated_weight_stops_the_gradient_when_old_is_the_current_policy():
    split = importance(LOGPROBS, LOGPROBS.detach(), BEHAVIOUR, MismatchConfig())
    (gradient,) = torch.autograd.grad((split.weight * split.ratio).sum(), LOGPROBS)
    assert gradient.tolist() == pytest.approx(split.weight.tolist())


def test_both_modes_agree_without_mismatch():
    modes = [
        importance(LOGPROBS, OLD, OLD, MismatchConfig(mode=mode)).total
        for mode in ("truncated", "bypass")
    ]
    assert torch.equal(*modes)


def test_huge_drift_is_capped_without_overflow():
    far = torch.tensor([-1e4], dtype=torch.float32)
    split = importance(far * 0, far * 0, far, MismatchConfig(cap=2.0))
    assert split.weight.tolist() == [2.0]


def test_behaviour_divergence_is_k3_and_its_expectation_is_the_kl():
    behaviour = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    old = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    samples = behaviour_divergence(old.log(), behaviour.log())
    assert (samples >= 0).all()
    exact = (behaviour * (behaviour / old).log()).sum()
    assert (behaviour * samples).sum().item() == pytest.approx(exact.item())
