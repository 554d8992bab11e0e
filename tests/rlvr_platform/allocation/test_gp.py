import subprocess
import sys
from pathlib import Path

import gpytorch
import numpy as np
import pytest
import torch

from rlvr_platform.allocation.calibration import brier
from rlvr_platform.allocation.gp import (
    PaperGpPredictor,
    RobustGpPredictor,
    build_gp,
    logistic_normal,
    median_distance,
    rbf,
)
from rlvr_platform.allocation.moving_average import MovingAverage
from rlvr_platform.allocation.predictor import logit, sigmoid
from rlvr_platform.config.allocator import GpConfig, MovingAverageConfig, PaperGp, RobustGp
from rlvr_platform.errors import NumericalError

ROOT = Path(__file__).parents[3]
RNG = np.random.default_rng(0)
Q, D, LENGTH = 50, 6, 0.9


def unit_rows(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


X = unit_rows(Q, D)
KERNEL = np.exp(
    -((X[:, None].astype(float) - X[None].astype(float)) ** 2).sum(-1) / (2 * LENGTH**2)
)


def steps(count: int, batch: int = 12) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Distinct prompts within a step, the same ones again in later steps."""
    draw = np.random.default_rng(1)
    result = []
    for _ in range(count):
        prompts, counts = draw.permutation(Q)[:batch], draw.integers(1, 12, size=batch)
        result.append((prompts, draw.binomial(counts, 0.4).astype(float), counts))
    return result


class DenseReference:
    """The robust mode's posterior from the textbook formula, from a list of all observations."""

    def __init__(self, config: RobustGp) -> None:
        self.config = config
        self.history: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def prior(self) -> np.ndarray:
        share = self.config.own_share
        return self.config.prior_std**2 * ((1 - share) * KERNEL + share * np.eye(Q))

    def posterior(self, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen, target, noise = self._observations(prompts)
        prior = self.prior()
        gram = prior[np.ix_(seen, seen)] + np.diag(noise)
        cross = prior[np.ix_(prompts, seen)]
        mean = cross @ np.linalg.solve(gram, target)
        covariance = prior[np.ix_(prompts, prompts)] - cross @ np.linalg.solve(gram, cross.T)
        return mean, np.diag(covariance)

    def _observations(self, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        won, drawn, last = np.zeros(Q), np.zeros(Q), np.full(Q, -1)
        for step, (who, successes, counts) in enumerate(self.history):
            faded = self.config.decay ** (step - last[who])
            won[who] = faded * won[who] + successes
            drawn[who] = faded * drawn[who] + counts
            last[who] = step
        order = [q for _, q in sorted((-last[q], q) for q in range(Q) if last[q] >= 0)]
        seen = np.array(
            sorted({*order[: self.config.window], *(q for q in prompts if last[q] >= 0)})
        )
        p = (won[seen] + 0.5) / (drawn[seen] + 1)
        weight = self.config.decay ** (len(self.history) - 1 - last[seen])
        return seen, np.log(p / (1 - p)), 1 / (weight * drawn[seen] * p * (1 - p))


@pytest.mark.parametrize(
    "config",
    [RobustGp(), RobustGp(own_share=0.0), RobustGp(own_share=0.5, decay=0.7, window=10)],
    ids=["default", "no own term", "window"],
)
def test_robust_mode_equals_the_dense_reference(config):
    predictor, reference = RobustGpPredictor(config, X, LENGTH), DenseReference(config)
    for step in steps(6):
        predictor.observe(*step)
        reference.history.append(step)
        prompts = np.arange(3, 33)
        mean, variance = reference.posterior(prompts)
        expected = logistic_normal(mean, np.sqrt(variance))
        np.testing.assert_allclose(predictor.predict(prompts).nodes, expected.nodes, atol=1e-11)


def test_paper_mode_carries_the_mean_to_all_prompts_as_published():
    predictor, mean = PaperGpPredictor(X, LENGTH), np.zeros(Q)
    for who, successes, counts in steps(5):
        predictor.observe(who, successes, counts)
        observed = logit(np.clip(successes / counts, 1e-6, 1 - 1e-6))
        gram = KERNEL[np.ix_(who, who)] + 1e-4 * np.eye(len(who))
        mean = mean + KERNEL[:, who] @ np.linalg.solve(gram, observed - mean[who])
        mean[who] = observed
        got = predictor.predict(np.arange(Q)).mean
        np.testing.assert_allclose(logit(got), mean, atol=1e-8)


def test_paper_mode_interpolates_observed_accuracy():
    predictor = PaperGpPredictor(X, LENGTH)
    for who, successes, counts in steps(3):
        predictor.observe(who, successes, counts)
        expected = np.clip(successes / counts, 1e-6, 1 - 1e-6)
        np.testing.assert_allclose(predictor.predict(who).mean, expected, rtol=1e-12)


def test_paper_mode_gives_an_unseen_twin_the_observed_logit_up_to_the_jitter():
    twins = np.concatenate((X[:10], X[:10]))
    predictor = PaperGpPredictor(twins, 0.3)
    counts = np.full(10, 8)
    predictor.observe(np.arange(10), RNG.integers(1, 8, 10).astype(float), counts)
    seen, unseen = (
        logit(predictor.predict(half).mean) for half in (np.arange(10), np.arange(10, 20))
    )
    np.testing.assert_allclose(unseen, seen, atol=5e-3)


@pytest.mark.parametrize("mode", [RobustGp(), PaperGp()], ids=["robust", "paper"])
def test_several_groups_of_a_prompt_are_one_of_their_sum(mode):
    apart, summed = (build_gp(GpConfig(mode=mode), X) for _ in range(2))
    apart.observe(np.array([7, 3, 7]), np.array([1.0, 2.0, 4.0]), np.array([4, 4, 8]))
    summed.observe(np.array([3, 7]), np.array([2.0, 5.0]), np.array([4, 12]))
    everything = np.arange(Q)
    assert np.array_equal(apart.predict(everything).nodes, summed.predict(everything).nodes)


@pytest.mark.parametrize("mode", [RobustGp(own_share=0.0), PaperGp()], ids=["robust", "paper"])
def test_prompts_with_equal_embeddings_do_not_break_the_fit(mode):
    predictor = build_gp(GpConfig(mode=mode), np.repeat(X[:2], 20, axis=0))
    counts = np.full(40, 8)
    predictor.observe(np.arange(40), np.repeat([2.0, 6.0], 20), counts)
    p = predictor.predict(np.arange(40)).mean
    np.testing.assert_allclose(p, np.repeat([0.25, 0.75], 20), atol=0.05)


def test_a_prompt_asked_for_twice_is_answered_twice():
    predictor = build_gp(GpConfig(), X)
    predictor.observe(*steps(1)[0])
    nodes = predictor.predict(np.array([5, 9, 5])).nodes
    np.testing.assert_allclose(nodes[0], nodes[2], atol=1e-12)


@pytest.mark.parametrize("mode", [RobustGp(decay=0.7), PaperGp()], ids=["robust", "paper"])
def test_a_moving_policy_is_followed(mode):
    predictor = build_gp(GpConfig(mode=mode), X)
    draw = np.random.default_rng(2)
    for level in (*np.linspace(0.1, 0.9, 20), *[0.9] * 8):
        prompts = draw.permutation(Q)[:16]
        predictor.observe(prompts, np.full(16, 16 * level), np.full(16, 16))
    p = predictor.predict(np.arange(Q)).mean
    assert p.mean() == pytest.approx(0.9, abs=0.05)


def test_more_rollouts_and_fresher_ones_leave_less_doubt():
    def doubt(rollouts: int, steps_since: int) -> float:
        predictor = RobustGpPredictor(RobustGp(decay=0.8), X, LENGTH)
        predictor.observe(np.array([0]), np.array([rollouts / 2]), np.array([rollouts]))
        for _ in range(steps_since):
            far = int(np.argmin(KERNEL[0]))
            predictor.observe(np.array([far]), np.array([1.0]), np.array([2]))
        return float(np.ptp(predictor.predict(np.array([0])).nodes))

    assert doubt(64, 0) < doubt(16, 0) < doubt(4, 0) < doubt(4, 20)


def test_doubt_keeps_the_variance_of_a_prompt_of_its_own_high():
    predictor = RobustGpPredictor(RobustGp(prior_std=3.0), X, 0.05)
    predictor.observe(np.array([0]), np.array([8.0]), np.array([8]))
    known, unknown = predictor.predict(np.array([0, 1])).variance_term
    plug_in = predictor.predict(np.array([1])).mean[0]
    assert known < unknown < plug_in * (1 - plug_in)


def smooth_task(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of 600 prompts and success probabilities that vary smoothly over them."""
    embeddings = unit_rows(600, 12, seed)
    direction = np.random.default_rng(seed + 100).standard_normal(12)
    return embeddings, sigmoid(2.5 * embeddings @ direction)


@pytest.mark.parametrize("seed", range(3))
def test_on_prompts_never_seen_it_beats_the_moving_average(seed):
    embeddings, p = smooth_task(seed)
    gp = build_gp(GpConfig(), embeddings)
    average = MovingAverage(MovingAverageConfig(), len(p))
    draw = np.random.default_rng(seed)
    for prompts in np.arange(400).reshape(10, 40):
        counts = draw.integers(4, 17, 40)
        successes = draw.binomial(counts, p[prompts]).astype(float)
        gp.observe(prompts, successes, counts)
        average.observe(prompts, successes, counts)
    unseen, counts = np.arange(400, 600), np.full(200, 16)
    successes = draw.binomial(16, p[unseen]).astype(float)
    score, baseline, best = (
        brier(q, successes, counts)
        for q in (gp.predict(unseen).mean, average.predict(unseen).mean, p[unseen])
    )
    assert best < score
    assert score - best < 0.4 * (baseline - best)


@pytest.mark.parametrize("std", [0.01, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [-6.0, -1.0, 0.0, 3.0])
def test_the_quadrature_integrates_the_logistic_normal(mean, std):
    g = mean + std * np.linspace(-12, 12, 200_001)
    density = np.exp(-0.5 * ((g - mean) / std) ** 2)
    density /= density.sum()
    belief = logistic_normal(np.array([mean]), np.array([std]))
    p = sigmoid(g)
    assert belief.mean[0] == pytest.approx(density @ p, abs=1e-5)
    assert belief.variance_term[0] == pytest.approx(density @ (p * (1 - p)), abs=1e-4)


def test_the_numpy_kernel_is_gpytorchs():
    kernel = gpytorch.kernels.RBFKernel().double()
    kernel.lengthscale = torch.tensor(LENGTH, dtype=torch.float64)
    rows = torch.from_numpy(X.astype(np.float64))
    expected = kernel(rows, rows[:7]).to_dense().detach().numpy()
    np.testing.assert_allclose(rbf(X, X[:7], LENGTH), expected, atol=1e-12)


def test_the_median_heuristic_is_the_median_over_pairs():
    rows = unit_rows(200, 5)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=-1)
    expected = np.median(distances[np.triu_indices(200, 1)])
    assert median_distance(rows) == pytest.approx(expected, rel=0.02)
    assert median_distance(rows) == median_distance(rows.copy())


def test_equal_embeddings_have_some_length_scale():
    assert median_distance(np.ones((9, 3), np.float32)) == 1.0


def test_an_embedding_that_is_not_finite_is_a_numerical_error():
    broken = X.copy()
    broken[4] = np.nan
    robust, paper = RobustGpPredictor(RobustGp(), broken, 1.0), PaperGpPredictor(broken, 1.0)
    observed = (np.array([3, 4]), np.ones(2), np.full(2, 4))
    robust.observe(*observed)
    with pytest.raises(NumericalError):
        robust.predict(np.arange(6))
    unseen = RobustGpPredictor(RobustGp(), broken, 1.0)
    unseen.observe(np.array([3]), np.ones(1), np.full(1, 4))
    with pytest.raises(NumericalError):
        unseen.predict(np.arange(6))
    before = paper.state()["mean"]
    with pytest.raises(NumericalError):
        paper.observe(*observed)
    assert np.array_equal(paper.state()["mean"], before)


MEMORY = """
import resource, numpy as np
from rlvr_platform.allocation.gp import build_gp
from rlvr_platform.config.allocator import GpConfig, PaperGp, RobustGp
x = np.random.default_rng(0).standard_normal((17_000, 384), dtype=np.float32)
x /= np.linalg.norm(x, axis=1, keepdims=True)
prompts, counts = np.arange(512), np.full(512, 8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for mode in (RobustGp(), PaperGp()):
    predictor = build_gp(GpConfig(mode=mode), x)
    for start in (0, 512):
        predictor.observe(prompts + start, np.full(512, 3.0), counts)
    predictor.predict(prompts)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def test_seventeen_thousand_prompts_take_no_square_matrix():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    # The square matrix alone is 2205 MiB.
    assert int(done.stdout) < 300
