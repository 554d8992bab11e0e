import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from rlvr_platform.algorithms.losses import policy_losses
from rlvr_platform.batching.micro_batches import micro_batches
from rlvr_platform.batching.rows import Rows
from rlvr_platform.config.algorithm import AlgorithmConfig, MismatchConfig
from rlvr_platform.config.learner import LearnerConfig
from rlvr_platform.errors import NumericalError
from rlvr_platform.guards import (
    NonFiniteUpdate,
    Place,
    read_evidence,
    row_losses,
    write_evidence,
)
from rlvr_platform.policy import PolicyModel, model_inputs
from rlvr_platform.update import lay_out, optimizer_step, score_frozen

# A cap that truncates some rows' weights, for the losses that correct whole rows too.
CAPPED = MismatchConfig(cap=0.8)
ALGORITHMS = [
    AlgorithmConfig(mismatch=CAPPED),
    AlgorithmConfig(loss="gspo", clip_low=0.02, clip_high=0.02, mismatch=CAPPED),
    AlgorithmConfig(loss="cispo", clip_low=0.2, clip_high=0.1, mismatch=CAPPED),
]
VOCABULARY = 23


class Recorder:
    """The gradient of one optimizer step, in float64, without taking it."""

    device = torch.device("cpu")

    def __init__(self):
        torch.manual_seed(0)
        config = Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=8,
            intermediate_size=12,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=4,
            initializer_range=0.3,
        )
        self.policy = PolicyModel(Qwen3ForCausalLM(config).double(), temperature=1.0, chunk=64)

    def __call__(self, *inputs, min_chunks):
        return self.policy(*inputs, min_chunks=min_chunks)

    def backward(self, loss, last):
        loss.backward()

    def step(self, learning_rate):
        self.gradient = torch.cat([p.grad.flatten() for p in self.policy.parameters()])
        self.policy.zero_grad()
        return float(self.gradient.norm())

    def most(self, counts):
        return counts


@pytest.fixture(scope="module")
def engine():
    return Recorder()


@pytest.fixture
def rows():
    generator = np.random.default_rng(0)
    lengths = np.array([9, 5, 8, 12, 7])
    within = np.concatenate([np.arange(length) for length in lengths])
    total = int(lengths.sum())
    return Rows(
        tokens=generator.integers(0, VOCABULARY, total).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        trained=within >= 3,
        behaviour=(-generator.exponential(3.0, total)).astype(np.float32),
        advantage=generator.normal(size=5).astype(np.float32),
        weight=generator.uniform(0.5, 1.5, 5).astype(np.float32),
        group=np.arange(5, dtype=np.int32),
        prompt_length=np.full(5, 3),
    )


def moved(logprobs, targets):
    """Old log-probabilities that differ from the current ones, so that ratios are not 1."""
    return logprobs.detach() - 0.3 * torch.sin(torch.from_numpy(targets).double())


def minibatch_of(rows, budget, engine):
    learner = LearnerConfig(tokens_per_micro_batch=budget, layout="padded")
    return lay_out(rows, learner, engine.policy.chunks, lambda counts: counts)


def whole_batch(engine, rows, algorithm):
    """Losses, their weighted sum and its gradient with all rows in one forward pass."""
    (batch,) = micro_batches(rows, "padded", 1000)
    logprobs, _ = engine(*model_inputs(batch, engine.device), min_chunks=1)
    behaviour, advantage, weight, row = map(
        torch.from_numpy, (batch.behaviour, batch.advantage, batch.weight, batch.row)
    )
    old = moved(logprobs, batch.targets)
    losses = policy_losses(logprobs, old, behaviour, advantage, row, algorithm)
    loss = (weight * losses.loss).sum()
    loss.backward()
    engine.step(0.0)
    return losses, loss.item(), engine.gradient


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.loss)
@pytest.mark.parametrize("budget", [12, 30, 1000])
def test_gradient_and_sums_are_those_of_the_whole_batch(engine, rows, algorithm, budget):
    losses, loss, gradient = whole_batch(engine, rows, algorithm)
    minibatch = minibatch_of(rows, budget, engine)
    frozen = score_frozen(engine, minibatch, engine.device)
    pairs = zip(frozen, minibatch.micro_batches, strict=True)
    old = [moved(logprobs, batch.targets) for logprobs, batch in pairs]
    sums, norm = optimizer_step(engine, minibatch, old, None, algorithm, 0.0)
    # The model keeps norms and rotations in float32 whatever its own precision is.
    assert (engine.gradient - gradient).abs().max() < 1e-7 < 1e-3 < norm
    assert sums.loss == pytest.approx(loss, abs=1e-7)
    assert sums.tokens == rows.trained.sum()
    for name in ("clipped", "truncated"):
        flags = getattr(losses, name)
        assert getattr(sums, name) == flags.sum() and 0 < flags.sum() < len(flags)


def refused(engine, minibatch, algorithm=ALGORITHMS[0]):
    """The evidence of a step that must be refused."""
    with pytest.raises(NonFiniteUpdate) as caught:
        optimizer_step(engine, minibatch, None, None, algorithm, 0.0)
    return caught.value.evidence


@pytest.mark.parametrize("column", ["behaviour", "advantage", "weight"])
def test_a_loss_that_is_not_finite_names_its_input(engine, rows, column):
    getattr(rows, column)[-1] = np.nan
    minibatch = minibatch_of(rows, 1000, engine)
    with pytest.raises(NumericalError, match=rf"the loss is nan; .*inputs of the loss: {column}"):
        optimizer_step(engine, minibatch, None, None, AlgorithmConfig(), 0.0)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.loss)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", ["behaviour", "advantage", "weight"])
def test_whatever_is_not_finite_makes_the_gradient_so(engine, rows, algorithm, value, column):
    """An infinite correction is truncated to a finite loss: it must not get through by that."""
    getattr(rows, column)[-1] = value
    evidence = refused(engine, minibatch_of(rows, 1000, engine), algorithm)
    assert not torch.isfinite(engine.gradient).all()
    assert column in evidence.summary


def test_the_file_holds_the_faulty_micro_batch_and_gives_the_same_loss(engine, rows, tmp_path):
    rows.advantage[3] = -np.inf
    minibatch = minibatch_of(rows, 16, engine)
    evidence = refused(engine, minibatch)
    write_evidence(tmp_path / "a.npz", evidence, Place(1, 0, 0))
    _, read = read_evidence(tmp_path / "a.npz")
    assert 1 <= read.rows.count < rows.count
    assert read.rows.group.tolist() == [3]
    assert read.rows.tokens.tolist() == rows.tokens[22:34].tolist()
    again = row_losses(read).loss.sum()
    assert read.reason == f"loss is {again}" == "loss is inf"


def test_recorded_scores_are_those_of_the_policy(engine, rows):
    rows.weight[:] = np.nan
    evidence = refused(engine, minibatch_of(rows, 1000, engine))
    (batch,) = micro_batches(rows, "padded", 1000)
    logprobs, _ = engine(*model_inputs(batch, engine.device), min_chunks=1)
    for row in range(rows.count):
        own = slice(rows.offsets[row], rows.offsets[row + 1])
        recorded = evidence.logprobs[own][rows.trained[own]]
        expected = logprobs[torch.from_numpy(batch.row == row)].detach().numpy()
        np.testing.assert_array_equal(recorded, expected)
    assert np.isnan(evidence.logprobs[~rows.trained]).all()


def test_a_rank_without_fault_refuses_with_the_others_and_saves_nothing(engine, rows, monkeypatch):
    monkeypatch.setattr(engine, "step", lambda rate: float("nan"))
    monkeypatch.setattr(engine, "most", lambda counts: [1], raising=False)
    assert refused(engine, minibatch_of(rows, 16, engine)) is None


def test_a_gradient_that_overflows_alone_accuses_all_rows(engine, rows, monkeypatch):
    monkeypatch.setattr(engine, "step", lambda rate: float("inf"))
    evidence = refused(engine, minibatch_of(rows, 16, engine))
    assert evidence.rows.tokens.tolist() == rows.tokens.tolist()
    assert evidence.summary.startswith("the gradient norm is inf")
    assert not any(row_losses(evidence).faults)
