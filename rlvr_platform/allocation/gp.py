"""p_q = sigmoid(g(x_q)) with g a Gaussian process over prompt embeddings (VIP, arXiv 2602.01601).

Two modes. `RobustGp` weighs each observation by how much it tells; `PaperGp` conditions on
observed logits exactly, as published. Neither ever holds a Q x Q matrix: kept are the embeddings,
float32 [Q, D], and columns of length Q.

Set `torch.set_num_threads(1)` in the process that predicts: beside a busy process, several OpenMP
threads make these small factorisations 10 to 60 times slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import gpytorch
import numpy as np
import torch
from linear_operator import LinearOperator
from linear_operator.settings import max_cholesky_size
from linear_operator.utils.errors import NanError, NotPSDError

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.allocation.predictor import (
    Evidence,
    Predictor,
    State,
    check_shapes,
    check_successes,
    logit,
    sigmoid,
    smoothed,
    total_by_prompt,
    without_embedding_shape,
)
from rlvr_platform.config.allocator import GpConfig, PaperGp, RobustGp
from rlvr_platform.errors import NumericalError

JITTER = 1e-4
"""Added to the diagonal of K_BB in paper mode [paper]."""
CLIP = 1e-6
"""Observed accuracy stays this far from 0 and 1 in paper mode [paper]."""
LOGIT_LIMIT = 6.0
"""|m| in robust mode: p between 0.25 % and 99.75 %."""
WORTHLESS = 1e6
"""Noise variance at which an observation says nothing any more, logits squared."""
NODES = 16
"""Gauss-Hermite nodes of a belief; E[p(1-p)] to 1e-4 for standard deviations up to 2."""
BLOCK_ELEMENTS = 1 << 21
"""Most elements of a block K[rows, B], 16 MiB in float64; a few such blocks live at once."""
PAIRS = 10_000
"""Pairs of prompts whose distances give the median heuristic."""


def build_gp(config: GpConfig, embeddings: np.ndarray) -> Predictor:
    """The predictor of the configured mode over `embeddings`, float32 [Q, D]."""
    scale = config.length_scale
    length = median_distance(embeddings) if scale == "median" else float(scale)
    if isinstance(config.mode, PaperGp):
        return PaperGpPredictor(embeddings, length)
    return RobustGpPredictor(config.mode, embeddings, length)


class RobustGpPredictor:
    """The default: noisy, decaying evidence, and the whole posterior as belief [choice].

    Prior: g_q = f(x_q) + u_q, f ~ GP(0, (1 - own_share) std^2 RBF), u_q ~ N(0, own_share std^2)
    of the prompt alone. An observation of s successes in n rollouts is the logit of the Jeffreys
    mean p = (s + 1/2) / (n + 1) with noise variance 1 / (w n p (1-p)), w the share of its weight
    that is left after some steps. A prompt has one observation however often it was drawn, so
    duplicates do not make K singular.

    Conditioned on, afresh at every prediction: the most recently observed prompts, which carry
    the policy's present level, and the predicted prompts' own last outcomes, however old, which
    alone know u_q. No mean is carried forward: that would count the same outcome again at every
    step, and its variance would have to be invented. Cost is O((window + B)^3).
    """

    def __init__(self, config: RobustGp, embeddings: np.ndarray, length_scale: float) -> None:
        self._config = config
        self._embeddings = embeddings
        self._kernel = _SharedAndOwn(config, length_scale)
        self._evidence = Evidence(len(embeddings), config.decay)

    def predict(self, prompts: np.ndarray) -> Belief:
        """Posterior of sigmoid(g) at `prompts` as a Gauss-Hermite quadrature."""
        recent = self._evidence.recent(self._config.window)
        seen = np.union1d(recent, self._evidence.known(prompts))
        if not len(seen):
            prior = np.full(len(prompts), self._config.prior_std)
            return logistic_normal(np.zeros(len(prompts)), prior)
        mean, variance = self._posterior(seen, prompts)
        return logistic_normal(np.clip(mean, -LOGIT_LIMIT, LOGIT_LIMIT), np.sqrt(variance))

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """See `Predictor.observe`."""
        check_successes(successes, counts)
        self._evidence.add(prompts, successes, counts)

    def state(self) -> dict[str, np.ndarray]:
        return self._evidence.state() | {"embedding_shape": np.array(self._embeddings.shape)}

    def restore(self, state: State) -> None:
        self._evidence.restore(without_embedding_shape(state, self._embeddings))

    def _posterior(self, seen: np.ndarray, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        successes, counts = self._evidence.totals(seen)
        p = smoothed(successes, counts)
        target = np.clip(logit(p), -LOGIT_LIMIT, LOGIT_LIMIT)
        with np.errstate(divide="ignore"):
            noise = 1.0 / (self._evidence.weight(seen) * counts * p * (1.0 - p))
        noise = np.minimum(noise, WORTHLESS)
        inputs = self._inputs(seen)
        with _exact_arithmetic():
            root = _ExactGp(inputs, target, noise, self._kernel).noisy_covariance().cholesky()
            cross = self._kernel(inputs, self._inputs(prompts)).to_dense()
            targets = torch.from_numpy(target)[:, None]
            whitened = root.solve(torch.cat((targets, cross), dim=1)).numpy()
        mean = whitened[:, 0] @ whitened[:, 1:]
        variance = self._config.prior_std**2 - np.square(whitened[:, 1:]).sum(axis=0)
        _require_finite(mean, variance)
        return mean, np.maximum(variance, 0.0)

    def _inputs(self, prompts: np.ndarray) -> torch.Tensor:
        """float64 [B, D + 1]: the embedding, and the prompt's index for the own term."""
        rows = self._embeddings[prompts].astype(np.float64)
        return torch.from_numpy(np.column_stack((rows, prompts.astype(np.float64))))


class PaperGpPredictor:
    """VIP as published: a mean per prompt, moved by noise-free conditioning on each step's logits.

    g_hat = logit(accuracy clipped to [1e-6, 1 - 1e-6]) of the batch B; then for all prompts
    m += K[:, B] (K_BB + 1e-4 I)^-1 (g_hat - m_B), and m_B = g_hat. The covariance starts afresh at
    every step, which is what lets the mean follow a moving policy; p is sigmoid(m), plugged in.
    Rows K[:, B] are made in blocks of at most 16 MiB. Several groups of a prompt are one
    observation of their common accuracy.
    """

    def __init__(self, embeddings: np.ndarray, length_scale: float) -> None:
        self._embeddings = embeddings
        self._length = length_scale
        self._kernel = _rbf(length_scale)
        self._mean = np.zeros(len(embeddings))

    def predict(self, prompts: np.ndarray) -> Belief:
        """sigmoid(m) of `prompts`, taken as certain."""
        return certain(sigmoid(self._mean[prompts]))

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """See `Predictor.observe`. Raises NumericalError, the mean then stays as it was."""
        check_successes(successes, counts)
        who, won, drawn = total_by_prompt(prompts, successes, counts, len(self._mean))
        if not len(who):
            return
        observed = logit(np.clip(won / drawn, CLIP, 1.0 - CLIP))
        moved = self._mean + self._shift(who, observed - self._mean[who])
        moved[who] = observed
        self._mean = moved

    def state(self) -> dict[str, np.ndarray]:
        return {"mean": self._mean.copy(), "embedding_shape": np.array(self._embeddings.shape)}

    def restore(self, state: State) -> None:
        rest = without_embedding_shape(state, self._embeddings)
        check_shapes(rest, {"mean": self._mean.shape})
        self._mean = np.array(rest["mean"], dtype=np.float64)

    def _shift(self, who: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """K[:, who] (K[who, who] + 1e-4 I)^-1 residual, float64 [Q]."""
        inputs = torch.from_numpy(self._embeddings[who].astype(np.float64))
        with _exact_arithmetic():
            model = _ExactGp(inputs, residual, np.full(len(who), JITTER), self._kernel)
            targets = torch.from_numpy(residual)[:, None]
            weights = model.noisy_covariance().solve(targets)[:, 0].numpy()
        rows = max(1, BLOCK_ELEMENTS // len(who))
        blocks = [
            rbf(self._embeddings[start : start + rows], self._embeddings[who], self._length)
            @ weights
            for start in range(0, len(self._mean), rows)
        ]
        shift = np.concatenate(blocks)
        _require_finite(shift)
        return shift


def rbf(x: np.ndarray, y: np.ndarray, length_scale: float) -> np.ndarray:
    """exp(-|x - y|^2 / (2 l^2)) in float64 [N, M] for rows x [N, D] and y [M, D].

    The same as gpytorch's kernel; numpy's product is several times faster than torch's on some
    processors, and carrying the mean to all prompts is nothing but this product.
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    squares = np.einsum("ij,ij->i", x, x)[:, None] + np.einsum("ij,ij->i", y, y)
    distances = x @ y.T
    distances *= -2.0
    distances += squares
    np.maximum(distances, 0.0, out=distances)
    distances *= -0.5 / length_scale**2
    return np.exp(distances, out=distances)


def logistic_normal(mean: np.ndarray, std: np.ndarray) -> Belief:
    """The belief on sigmoid(g), g ~ N(mean, std^2), [B] each, by Gauss-Hermite quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    nodes = sigmoid(mean[:, None] + std[:, None] * points)
    return Belief(nodes, weights / weights.sum())


def median_distance(embeddings: np.ndarray) -> float:
    """Median distance of distinct rows over a fixed random sample of pairs; 1 without any.

    Then all rows are equal and the kernel is 1 whatever its length scale.
    """
    draw = np.random.default_rng(0)
    first, second = draw.integers(len(embeddings), size=(2, PAIRS))
    apart = embeddings[first].astype(np.float64) - embeddings[second]
    distances = np.sqrt(np.einsum("ij,ij->i", apart, apart))
    positive = distances[distances > 1e-6]
    return float(np.median(positive)) if len(positive) else 1.0


class _ExactGp(gpytorch.models.ExactGP):
    """Zero prior mean, a fixed noise variance for each observation."""

    def __init__(
        self,
        inputs: torch.Tensor,
        targets: np.ndarray,
        noise: np.ndarray,
        kernel: gpytorch.kernels.Kernel,
    ) -> None:
        likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(torch.from_numpy(noise))
        super().__init__(inputs, torch.from_numpy(targets), likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel
        self.eval()

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def noisy_covariance(self) -> LinearOperator:
        """K + diag(noise) of the observations.

        gpytorch's own prediction also makes the covariance between all predicted prompts, which
        nobody asks for and which takes as long as the rest.
        """
        (inputs,) = self.train_inputs
        return self.likelihood(self.forward(inputs)).lazy_covariance_matrix


class _SharedAndOwn(gpytorch.kernels.Kernel):
    """std^2 ((1 - own_share) RBF(embedding) + own_share [same prompt]).

    Inputs are [N, D + 1], the last column the prompt's index.
    """

    def __init__(self, config: RobustGp, length_scale: float) -> None:
        super().__init__()
        self._rbf = _rbf(length_scale)
        self._shared = config.prior_std**2 * (1.0 - config.own_share)
        self._own = config.prior_std**2 * config.own_share

    def forward(
        self, x1: torch.Tensor, x2: torch.Tensor, diag: bool = False, **_: object
    ) -> torch.Tensor:
        shared = self._rbf.forward(x1[..., :-1], x2[..., :-1], diag=diag)
        same = x1[..., -1] == x2[..., -1] if diag else x1[..., -1:] == x2[..., -1:].mT
        return shared.mul_(self._shared).add_(same, alpha=self._own)


def _rbf(length_scale: float) -> gpytorch.kernels.Kernel:
    kernel = gpytorch.kernels.RBFKernel().double()
    # A plain number would be rounded to float32 on its way into the kernel.
    kernel.lengthscale = torch.tensor(length_scale, dtype=torch.float64)
    return kernel


@contextmanager
def _exact_arithmetic() -> Iterator[None]:
    """Cholesky at every size, no gradients; a factorisation that fails is a NumericalError."""
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(max_cholesky_size(1 << 30))
        try:
            yield
        except (NanError, NotPSDError, torch.linalg.LinAlgError) as error:
            raise _failure(str(error)) from error


def _require_finite(*results: np.ndarray) -> None:
    if not all(np.isfinite(result).all() for result in results):
        raise _failure("its result is not finite")


def _failure(why: str) -> NumericalError:
    return NumericalError(
        f"the Gaussian process over prompts cannot be fitted: {why}",
        "finite embeddings and a positive definite kernel matrix",
        "set allocator.predictor.length_scale, or use allocator.predictor.kind=ridge",
    )
