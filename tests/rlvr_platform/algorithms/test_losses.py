import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlvr_platform.algorithms.losses import (
    clipped_surrogate,
    policy_losses,
    weighted_likelihood,
)
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


def scalar_loss(tokens, config):
    """The same mathematics, one row at a time, in the form of the papers.

    A row is its (logprob, old, behaviour) per token; the losses are those of its tokens.
    """
    *tokens, advantage = tokens
    if config.loss == "gspo":
        pi, old, mu = (math.exp(sum(column) / len(tokens)) for column in zip(*tokens, strict=True))
        return [scalar_surrogate(*scalar_importance(pi, old, mu, config), advantage, config)] * len(
            tokens
        )
    losses = []
    for logprob, old, behaviour in tokens:
        weight, ratio = scalar_importance(*map(math.exp, (logprob, old, behaviour)), config)
        if config.loss == "cispo":
            bounded = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
            losses.append(-weight * bounded * advantage * logprob)
        else:
            losses.append(scalar_surrogate(weight, ratio, advantage, config))
    return losses


def scalar_importance(pi, old, mu, config):
    if config.mismatch.mode == "bypass":
        return 1.0, pi / mu
    return min(old / mu, config.mismatch.cap), pi / old


def scalar_surrogate(weight, ratio, advantage, config):
    bounded = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
    objective = min(ratio * advantage, bounded * advantage)
    if config.dual_clip is not None and advantage < 0:
        objective = max(objective, config.dual_clip * advantage)
    return -weight * objective


LOSSES = ["clipped", "gspo", "cispo"]
configs = st.builds(
    AlgorithmConfig,
    loss=st.sampled_from(LOSSES),
    clip_low=st.floats(0.05, 0.9),
    clip_high=st.floats(0.05, 2.0),
    dual_clip=st.none() | st.floats(3.5, 6.0),
    mismatch=st.builds(
        MismatchConfig, mode=st.sampled_from(["truncated", "bypass"]), cap=st.floats(0.5, 4.0)
    ),
)
token = st.tuples(st.floats(-3, 0), st.floats(-3, 0), st.floats(-3, 0))
row = st.tuples(st.lists(token, min_size=1, max_size=6), st.floats(-3, 3, allow_subnormal=False))


def columns(rows):
    """logprobs, old, behaviour, advantages and row of the tokens of `rows`, rows interleaved."""
    longest = max(len(tokens) for tokens, _ in rows)
    entries = [
        (*tokens[i], advantage, index)
        for i in range(longest)
        for index, (tokens, advantage) in enumerate(rows)
        if i < len(tokens)
    ]
    *numbers, row = zip(*entries, strict=True)
    return *(tensor(*column) for column in numbers), torch.tensor(row)


@given(st.lists(row, min_size=1, max_size=6), configs)
def test_losses_equal_a_scalar_reimplementation(rows, config):
    *numbers, row = columns(rows)
    losses = policy_losses(*numbers, row, config).loss
    for index, (tokens, advantage) in enumerate(rows):
        expected = scalar_loss([*tokens, advantage], config)
        assert losses[row == index].tolist() == pytest.approx(expected, abs=1e-12)


def random_columns(size, rows, seed=0):
    """Float64 logprobs, old and behaviour that differ enough to clip, advantages, row."""
    generator = np.random.default_rng(seed)
    row = torch.from_numpy(generator.integers(0, rows, size))
    logprobs, old, behaviour = (-generator.exponential(1.0, size) for _ in range(3))
    advantages = generator.normal(size=rows)[row.numpy()]
    return [torch.from_numpy(c) for c in (logprobs, old, behaviour, advantages)] + [row]


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
@pytest.mark.parametrize(("loss", "dual"), [("clipped", None), ("clipped", 3.0), ("gspo", None)])
def test_gradient_equals_finite_differences(loss, dual, mode):
    mismatch = MismatchConfig(mode=mode)
    config = AlgorithmConfig(loss=loss, dual_clip=dual, mismatch=mismatch)
    logprobs, *fixed = random_columns(120, rows=30)
    weights = torch.linspace(0.5, 1.5, 30, dtype=torch.float64)[fixed[-1]]

    def total(at):
        return (weights * policy_losses(at, *fixed, config).loss).sum()

    leaf = logprobs.clone().requires_grad_()
    clipped = policy_losses(logprobs, *fixed, config).clipped
    assert clipped.any() and not clipped.all()
    (gradient,) = torch.autograd.grad(total(leaf), leaf)
    steps = 1e-6 * torch.eye(len(logprobs), dtype=torch.float64)
    numeric = torch.stack(
        [(total(logprobs + step) - total(logprobs - step)) / 2e-6 for step in steps]
    )
    assert torch.allclose(gradient, numeric, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_first_optimizer_step_is_the_policy_gradient(loss):
    logprobs, advantages = tensor(-1.0, -2.0, -0.5, grad=True), tensor(1.0, 1.0, 0.5)
    old, row = logprobs.detach(), torch.tensor([0, 0, 1])
    losses = policy_losses(logprobs, old, old, advantages, row, AlgorithmConfig(loss=loss))
    (gradient,) = torch.autograd.grad(losses.loss.sum(), logprobs)
    assert gradient.tolist() == pytest.approx((-advantages).tolist())
    assert not losses.clipped.any() and not losses.truncated.any()
    assert losses.kl_behaviour.abs().max() == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_diagnostics_carry_no_gradient(loss):
    logprobs = tensor(-1.0, -2.0, grad=True)
    losses = policy_losses(
        logprobs,
        logprobs,
        logprobs,
        tensor(1.0, -1.0),
        torch.tensor([0, 1]),
        AlgorithmConfig(loss=loss),
    )
    assert not losses.importance.requires_grad and not losses.kl_behaviour.requires_grad


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
def test_the_kl_penalty_gets_the_importance_of_tokens_under_every_loss(mode):
    data = random_columns(40, rows=8)
    got = [
        policy_losses(
            *data, AlgorithmConfig(loss=loss, mismatch=MismatchConfig(mode=mode))
        ).importance
        for loss in LOSSES
    ]
    assert torch.equal(got[0], got[1]) and torch.equal(got[0], got[2])


def test_gspo_weighs_and_truncates_whole_rows():
    # Weights exp(1/2) and exp(-1/2) of mean drifts, though single tokens drift by 2 and -2.
    old = torch.zeros(4, dtype=torch.float64)
    behaviour, row = tensor(-2.0, 1.0, 2.0, -1.0), torch.tensor([0, 0, 1, 1])
    config = AlgorithmConfig(loss="gspo", mismatch=MismatchConfig(cap=1.5))
    losses = policy_losses(old, old, behaviour, tensor(1.0, 1.0, 1.0, 1.0), row, config)
    assert losses.loss.tolist() == pytest.approx([-1.5, -1.5, -math.exp(-0.5), -math.exp(-0.5)])
    assert losses.truncated.tolist() == [True, True, False, False]


def gspo_at(log_ratios, advantage, low=3e-4, high=4e-4):
    """Losses, gradient and clip indicator of one row without engine mismatch."""
    old = tensor(*[-1.0] * len(log_ratios))
    logprobs = (old + tensor(*log_ratios)).requires_grad_()
    row, advantages = torch.zeros(len(old), dtype=torch.int64), torch.full_like(old, advantage)
    config = AlgorithmConfig(loss="gspo", clip_low=low, clip_high=high)
    losses = policy_losses(logprobs, old, old, advantages, row, config)
    (gradient,) = torch.autograd.grad(losses.loss.sum(), logprobs)
    return losses.loss.tolist(), gradient.tolist(), losses.clipped.tolist()


def test_gspo_row_by_hand():
    # Mean log-ratio ln 1.2, inside 0.2 and 0.28 although the second token's ratio is far outside.
    loss, gradient, clipped = gspo_at([0.0, 2 * math.log(1.2)], -2.0, 0.2, 0.28)
    assert loss == pytest.approx([2.4, 2.4]) and gradient == pytest.approx([2.4, 2.4])
    assert clipped == [False, False]


@pytest.mark.parametrize(
    ("mean", "advantage", "clipped"),
    [
        (3.9e-4, 1.0, False),
        (4.1e-4, 1.0, True),
        (4.1e-4, -1.0, False),
        (-2.9e-4, -1.0, False),
        (-3.1e-4, -1.0, True),
        (-3.1e-4, 1.0, False),
    ],
)
def test_gspo_clips_whole_rows_at_the_published_bounds(mean, advantage, clipped):
    """All tokens of a row leave together, whatever their own ratios are."""
    _, gradient, got = gspo_at([mean - 0.5, mean, mean + 0.5], advantage)
    assert got == [clipped] * 3
    expected = 0.0 if clipped else -advantage * math.exp(mean)
    assert gradient == pytest.approx([expected] * 3)


@given(configs, st.integers(0, 100))
def test_gspo_of_single_tokens_is_clipped(config, seed):
    *numbers, _ = random_columns(12, rows=12, seed=seed)
    row = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    leaves = [numbers[0].clone().requires_grad_() for _ in range(2)]
    results = [
        policy_losses(leaf, *numbers[1:], row, config.model_copy(update={"loss": loss}))
        for leaf, loss in zip(leaves, ["gspo", "clipped"], strict=True)
    ]
    gradients = [
        torch.autograd.grad(result.loss.sum(), leaf)[0]
        for result, leaf in zip(results, leaves, strict=True)
    ]
    assert torch.equal(*gradients)
    for name in ("loss", "clipped", "truncated", "importance"):
        assert torch.equal(*(getattr(result, name) for result in results))


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
def test_gspo_rows_do_not_know_of_each_other(mode):
    config = AlgorithmConfig(loss="gspo", mismatch=MismatchConfig(mode=mode))
    data = random_columns(60, rows=9)
    together = policy_losses(*data, config).loss
    for own in range(9):
        mine = data[-1] == own
        alone = policy_losses(*(column[mine] for column in data), config).loss
        assert torch.allclose(together[mine], alone, rtol=1e-14)


@pytest.mark.parametrize(
    ("ratio", "advantage", "weight", "clipped"),
    [
        (1.0, 2.0, 1.0, False),
        (5.0, 1.0, 5.0, False),  # exactly at the cap
        (9.0, 1.0, 5.0, True),
        (9.0, -1.0, 5.0, True),  # both signs keep a gradient beyond the cap
        (0.01, 1.0, 0.01, False),  # clip_low 1 is no lower bound
        (9.0, 0.0, 5.0, False),
    ],
)
def test_cispo_weight_by_hand_at_the_published_bounds(ratio, advantage, weight, clipped):
    logprob = tensor(-2.0, grad=True)
    got = weighted_likelihood(logprob, tensor(ratio), tensor(advantage), 1.0, 4.0)
    (gradient,) = torch.autograd.grad(got[0].sum(), logprob)
    assert got[0].item() == pytest.approx(2.0 * weight * advantage)
    assert gradient.item() == pytest.approx(-weight * advantage)
    assert got[1].item() is clipped


def test_cispo_has_the_lower_bound_that_is_asked_for():
    loss, clipped = weighted_likelihood(tensor(-1.0), tensor(0.5), tensor(1.0), 0.2, 0.28)
    assert loss.item() == pytest.approx(0.8) and clipped.item()


@pytest.mark.parametrize("mode", ["truncated", "bypass"])
def test_cispo_gradient_is_that_of_clipped_inside_the_range_and_the_bound_s_outside(mode):
    logprobs, *fixed = random_columns(200, rows=40)
    gradients = {}
    for loss in ("clipped", "cispo"):
        config = AlgorithmConfig(loss=loss, mismatch=MismatchConfig(mode=mode))
        leaf = logprobs.clone().requires_grad_()
        result = policy_losses(leaf, *fixed, config)
        (gradients[loss],) = torch.autograd.grad(result.loss.sum(), leaf)
    outside = result.clipped
    assert outside.any() and not outside.all()
    assert torch.allclose(gradients["cispo"][~outside], gradients["clipped"][~outside])
    assert (gradients["cispo"][outside] != 0).all()
    old, behaviour, advantages, _ = fixed
    low, high = math.log(0.8), math.log(1.28)
    bypass = mode == "bypass"
    log_ratio = (logprobs - (behaviour if bypass else old)).clamp(low, high)
    log_weight = torch.zeros_like(old) if bypass else (old - behaviour).clamp(max=math.log(2.0))
    expected = -advantages * (log_weight + log_ratio).exp()
    assert torch.allclose(gradients["cispo"], expected)
