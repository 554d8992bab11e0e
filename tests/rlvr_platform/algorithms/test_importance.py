import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.importance import behaviour_divergence, importance, row_mean
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


ROW = torch.tensor([7, 3, 7, 7])


def test_pooled_by_rows_weight_and_ratio_are_geometric_means():
    split = importance(
        LOGPROBS, OLD, BEHAVIOUR, MismatchConfig(cap=2.0), partial(row_mean, row=ROW)
    )
    long, short = math.exp((0.1 - 0.5 + 0.1) / 3), math.exp(-0.1)
    assert split.ratio.tolist() == pytest.approx([long, short, long, long])
    assert split.weight.tolist() == pytest.approx([2.0, math.exp(0.2), 2.0, 2.0])
    assert split.truncated.tolist() == [True, False, True, True]


def test_a_row_whose_mean_is_below_the_cap_is_not_truncated_for_one_token():
    old = torch.tensor([0.0, 0.0, 0.0], dtype=torch.float64)
    behaviour = torch.tensor([-1.5, 0.3, 0.3], dtype=torch.float64)
    pool = partial(row_mean, row=torch.zeros(3, dtype=torch.int64))
    split = importance(old, old, behaviour, MismatchConfig(cap=2.0), pool)
    assert split.weight.tolist() == pytest.approx([math.exp(0.3)] * 3)
    assert not split.truncated.any()


def test_pooled_bypass_is_the_geometric_mean_of_policy_over_behaviour():
    mismatch = MismatchConfig(mode="bypass")
    split = importance(LOGPROBS, OLD, OLD - 0.3, mismatch, partial(row_mean, row=ROW))
    long, short = math.exp((0.1 - 0.5 + 0.1) / 3 + 0.3), math.exp(-0.1 + 0.3)
    assert split.ratio.tolist() == pytest.approx([long, short, long, long])
    assert (split.weight == 1).all()


entries = st.lists(st.tuples(st.integers(0, 5), st.floats(-5, 5)), min_size=1, max_size=40)


@given(entries)
def test_row_mean_equals_a_loop_over_rows(entries):
    row, values = (torch.tensor(column) for column in zip(*entries, strict=True))
    values = values.double()
    expected = [values[row == own].mean().item() for own in row]
    assert row_mean(values, row).tolist() == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(-5, 5, width=32), min_size=1, max_size=20))
def test_row_mean_of_single_entries_is_exactly_themselves(values):
    values = torch.tensor(values, dtype=torch.float32)
    assert torch.equal(row_mean(values, torch.arange(len(values)) * 3), values)


def test_row_mean_resolves_what_float32_sums_would_blur():
    generator = torch.Generator().manual_seed(0)
    small = 1e-4 + 0.2 * torch.randn(20_000, generator=generator)
    got = row_mean(small, torch.zeros(len(small), dtype=torch.int64))[0].item()
    assert got == pytest.approx(small.double().mean().item(), rel=1e-6)


def test_no_entries_have_no_row_mean():
    nothing = torch.zeros(0, requires_grad=True)
    mean = row_mean(nothing, torch.zeros(0, dtype=torch.int64))
    mean.sum().backward()
    assert mean.shape == (0,) and mean.dtype == torch.float32
