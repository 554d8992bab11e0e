"""Linear regression on the embedding, for the ablation of the Gaussian process."""

from __future__ import annotations

import numpy as np

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.allocation.predictor import (
    Evidence,
    State,
    check_successes,
    logit,
    sigmoid,
    smoothed,
    without_embedding_shape,
)
from rlvr_platform.config.allocator import RidgeConfig


class RidgePredictor:
    """logit p = b + w . x, least squares plus penalty |w|^2 over the last outcome of each prompt.

    The targets are logits of the Jeffreys-smoothed accuracy of the `window` most recently
    observed prompts; the intercept b is not penalised. Keeps three columns [Q] and the
    embeddings; a fit costs window * D^2.
    """

    def __init__(self, config: RidgeConfig, embeddings: np.ndarray) -> None:
        self._config = config
        self._embeddings = embeddings
        # Zero weight for the past: an observation replaces the one before.
        self._evidence = Evidence(len(embeddings), decay=0.0)

    def predict(self, prompts: np.ndarray) -> Belief:
        """The regression's value at `prompts`, taken as certain."""
        seen = self._evidence.recent(self._config.window)
        if not len(seen):
            return certain(np.full(len(prompts), 0.5))
        x = self._embeddings[seen].astype(np.float64)
        y = logit(smoothed(*self._evidence.totals(seen)))
        centre, level = x.mean(axis=0), y.mean()
        x -= centre
        normal = x.T @ x + self._config.penalty * np.eye(x.shape[1])
        slope = np.linalg.solve(normal, x.T @ (y - level))
        return certain(sigmoid(level + (self._embeddings[prompts] - centre) @ slope))

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """See `Predictor.observe`."""
        check_successes(successes, counts)
        self._evidence.add(prompts, successes, counts)

    def state(self) -> dict[str, np.ndarray]:
        return self._evidence.state() | {"embedding_shape": np.array(self._embeddings.shape)}

    def restore(self, state: State) -> None:
        self._evidence.restore(without_embedding_shape(state, self._embeddings))
