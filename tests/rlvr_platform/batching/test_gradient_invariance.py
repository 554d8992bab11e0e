"""Loss and gradient of one update do not depend on how its rows are cut and laid out."""

import dataclasses

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlvr_platform.algorithms.kl import kl_penalty
from rlvr_platform.algorithms.losses import policy_losses
from rlvr_platform.batching.denominators import normalise
from rlvr_platform.batching.micro_batches import empty, micro_batches
from rlvr_platform.batching.rows import gather_rows
from rlvr_platform.batching.sharding import plan_update, shard, split_minibatches
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.policy import PolicyModel, model_inputs

ALGORITHMS = [
    AlgorithmConfig(dual_clip=3.0),
    AlgorithmConfig(loss="gspo", clip_low=0.02, clip_high=0.02),
    AlgorithmConfig(loss="cispo", clip_low=0.2, clip_high=0.1),
]
SHAPES = [(3, [2, 9, 5]), (6, [1, 4]), (2, [7, 7, 3, 12]), (4, [6])]


@pytest.fixture(params=ALGORITHMS, ids=lambda algorithm: algorithm.loss)
def algorithm(request):
    return request.param


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=53,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    return PolicyModel(Qwen3ForCausalLM(config).double(), temperature=0.8, chunk=7)


@pytest.fixture
def policy(model, algorithm):
    """The model and the loss that it is trained on."""
    return model, algorithm


@pytest.fixture
def batch(make_group, make_batch):
    return make_batch([make_group(i, *shape, masked=0.2) for i, shape in enumerate(SHAPES)])


def token_losses(policy, batch):
    """Columns of the batch as tensors, losses, and the KL penalty of each trained token."""
    model, algorithm = policy
    columns = {
        field.name: torch.from_numpy(getattr(batch, field.name))
        for field in dataclasses.fields(batch)
        if field.name != "segments"
    }
    logprobs, _ = model(*model_inputs(batch, torch.device("cpu")))
    # An old policy that differs from the current one, so that the clip takes part.
    old = logprobs.detach() - 0.3 * torch.sin(columns["targets"].double())
    behaviour, advantage = columns["behaviour"].double(), columns["advantage"].double()
    losses = policy_losses(logprobs, old, behaviour, advantage, columns["row"], algorithm)
    return columns, losses, kl_penalty(logprobs, old - 0.1, losses.importance, "k3")


def micro_batch_loss(policy, batch):
    columns, losses, penalty = token_losses(policy, batch)
    return (columns["weight"].double() * (losses.loss + 0.1 * penalty)).sum()


def update(policy, shards, layout, budget):
    """Loss and flat gradient, summed over ranks and micro-batches as the learner does."""
    model, _ = policy
    model.zero_grad()
    total = 0.0
    for part in shards:
        rows = gather_rows(part, part.handles)
        for micro_batch in [*micro_batches(rows, layout, budget), empty()]:
            loss = micro_batch_loss(policy, micro_batch)
            loss.backward()
            total += loss.item()
    return total, torch.cat([p.grad.flatten().clone() for p in model.parameters()])


def one_step(batch, ranks=1, normalisation="token_mean"):
    (shards,) = plan_update(batch, 1, ranks, 0, normalisation, constant_length=12)
    return shards


def assert_same(got, wanted):
    assert got[0] == pytest.approx(wanted[0], abs=1e-9)
    assert wanted[1].abs().max() > 1e-3, "the comparison must be about something"
    # The model keeps norms and rotations in float32 whatever its own precision is.
    assert (got[1] - wanted[1]).abs().max() < 1e-8


def test_the_clip_takes_part_and_leaves_whole_rows_in_gspo(policy, batch):
    """Otherwise the comparisons below would say nothing about it."""
    (shard_of_all,) = one_step(batch)
    (everything,) = micro_batches(gather_rows(shard_of_all, batch.handles), "packed", 1000)
    _, losses, _ = token_losses(policy, everything)
    clipped = [set(losses.clipped[everything.row == row].tolist()) for row in range(batch.rows)]
    assert set().union(*clipped) == {True, False}
    assert any(len(kinds) == 2 for kinds in clipped) == (policy[1].loss != "gspo")


@pytest.mark.parametrize("normalisation", ["token_mean", "sequence_mean", "constant"])
@pytest.mark.parametrize("layout", ["padded", "packed", "shared_prompt"])
@pytest.mark.parametrize("budget", [14, 31, 1000])
def test_budget_and_layout_do_not_matter(policy, batch, layout, budget, normalisation):
    shards = one_step(batch, normalisation=normalisation)
    assert_same(
        update(policy, shards, layout, budget), update(policy, shards, "padded", budget=1000)
    )


@pytest.mark.parametrize("normalisation", ["token_mean", "sequence_mean", "constant"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_gradients_of_shards_sum_to_the_gradient_of_one_rank(policy, batch, ranks, normalisation):
    alone = update(policy, one_step(batch, 1, normalisation), "padded", 40)
    assert_same(update(policy, one_step(batch, ranks, normalisation), "padded", 40), alone)


def test_row_order_does_not_matter(policy, batch):
    order = np.random.default_rng(0).permutation(batch.rows)
    names = ("group", "sibling", "advantage", "weight", "length", "trained_tokens")
    shuffled = dataclasses.replace(batch, **{name: getattr(batch, name)[order] for name in names})
    assert_same(
        update(policy, one_step(shuffled), "packed", 40),
        update(policy, one_step(batch), "packed", 40),
    )


@pytest.mark.parametrize("normalisation", ["token_mean", "sequence_mean"])
def test_masked_tokens_leave_numerator_and_denominator_together(
    policy, make_group, make_batch, normalisation
):
    """Cutting a completion's tail off and masking it out are the same update."""
    whole, other = make_group(0, 3, [9, 4]), make_group(1, 2, [5, 6])
    mask = whole.loss_mask.copy()
    mask[5:9] = False
    masked = make_batch([dataclasses.replace(whole, loss_mask=mask), other])
    keep = np.r_[0:5, 9:13]
    cut = dataclasses.replace(
        whole,
        offsets=np.array([0, 5, 9]),
        **{name: getattr(whole, name)[keep] for name in ("tokens", "loss_mask", "logprobs")},
    )
    shortened = dataclasses.replace(
        masked,
        handles=(cut, other),
        length=np.array([8, 7, 7, 8], np.int32),
    )
    assert_same(
        update(policy, one_step(masked, normalisation=normalisation), "padded", 100),
        update(policy, one_step(shortened, normalisation=normalisation), "padded", 100),
    )


@pytest.mark.parametrize("layout", ["padded", "packed", "shared_prompt"])
def test_masked_tokens_get_exactly_no_gradient(policy, make_group, make_batch, layout):
    """What the engine claimed about a masked token cannot reach loss or gradient."""
    group = make_group(0, 3, [8, 5], masked=0.4)
    assert 0 < group.loss_mask.sum() < 13
    lies = np.where(group.loss_mask, group.logprobs, -50.0).astype(np.float32)
    lied = dataclasses.replace(group, logprobs=lies)
    results = [
        update(policy, one_step(make_batch([member])), layout, 100) for member in (group, lied)
    ]
    assert results[0][0] == results[1][0] and torch.equal(results[0][1], results[1][1])


def test_a_fully_masked_row_gets_exactly_no_gradient(policy, make_group, make_batch):
    group = make_group(0, 3, [8])
    silent = dataclasses.replace(group, loss_mask=np.zeros(8, bool))
    loss, gradient = update(policy, one_step(make_batch([silent])), "padded", 100)
    assert loss == 0 and (gradient == 0).all()


def test_the_denominator_is_the_batch_not_the_shard(policy, batch):
    """The usual mistake, a mean per rank averaged over ranks, is another update."""
    global_shards = one_step(batch, ranks=2)
    (whole,) = split_minibatches(batch, 1, seed=0)
    averaged = [
        replace_weight(normalise(part, "token_mean", 12), 1 / 2) for part in shard(whole, 2)
    ]
    right, wrong = (
        update(policy, shards, "padded", 1000)[1] for shards in (global_shards, averaged)
    )
    assert (right - wrong).abs().max() > 1e-3


def replace_weight(batch, factor):
    return dataclasses.replace(batch, weight=batch.weight * np.float32(factor))
