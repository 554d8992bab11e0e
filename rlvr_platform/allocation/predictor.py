"""What a predictor of success probabilities is, and the evidence that predictors share.

Shapes: Q prompts of the data source, B prompts of a call, D numbers of an embedding. Prompts are
named by their index, int64 in [0, Q).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from rlvr_platform.allocation.belief import Belief, certain
from rlvr_platform.config.allocator import (
    GpConfig,
    MovingAverageConfig,
    NoPredictor,
    PredictorConfig,
    RidgeConfig,
)
from rlvr_platform.errors import InputError

State = Mapping[str, np.ndarray]


class Predictor(Protocol):
    """Predicts each prompt's success probability under the current policy."""

    def predict(self, prompts: np.ndarray) -> Belief:
        """The belief on p of `prompts`, int64 [B]; may run ahead of `observe` by some steps.

        Before the first observation every prompt gets the same one, of mean 0.5.
        Raises NumericalError when the fit breaks down.
        """
        ...

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """One step's outcomes: rewards on [0, 1] summed, float64 [B], of `counts`, int64 [B].

        A prompt may stand several times; entries of count 0 say nothing.
        """
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to go on bit for bit, as copies."""
        ...

    def restore(self, state: State) -> None:
        """Go on from `state`. Raises InputError for another prompt count or embedding size."""
        ...


def build_predictor(config: PredictorConfig, embeddings: np.ndarray) -> Predictor:
    """The configured predictor over `embeddings`, float32 [Q, D] with rows of length 1."""
    match config:
        case GpConfig():
            # gpytorch takes seconds to import: only where it is used.
            from rlvr_platform.allocation.gp import build_gp

            return build_gp(config, embeddings)
        case MovingAverageConfig():
            from rlvr_platform.allocation.moving_average import MovingAverage

            return MovingAverage(config, len(embeddings))
        case RidgeConfig():
            from rlvr_platform.allocation.ridge import RidgePredictor

            return RidgePredictor(config, embeddings)
        case NoPredictor():
            return Indifferent(len(embeddings))


class Indifferent:
    """Knows nothing: p = 0.5 always."""

    def __init__(self, prompt_count: int) -> None:
        self._prompt_count = prompt_count

    def predict(self, prompts: np.ndarray) -> Belief:
        """0.5 for each of `prompts`."""
        return certain(np.full(len(prompts), 0.5))

    def observe(self, prompts: np.ndarray, successes: np.ndarray, counts: np.ndarray) -> None:
        """Checks the outcomes and keeps nothing."""
        check_successes(successes, counts)
        total_by_prompt(prompts, successes, counts, self._prompt_count)

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state: State) -> None:
        check_shapes(state, {})


class Evidence:
    """Sums and counts of every prompt, older ones discounted; the clock ticks at every `add`.

    Keeps three columns [Q]. A prompt's totals are kept as they were when it was last observed;
    `weight` says what share of that is left now.
    """

    def __init__(self, prompt_count: int, decay: float) -> None:
        self._decay = decay
        self._sums = np.zeros(prompt_count)
        self._counts = np.zeros(prompt_count)
        self._last = np.full(prompt_count, -1, dtype=np.int64)
        self._clock = 0

    def add(self, prompts: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> None:
        """One step: sums float64 [B] over counts int64 [B] rollouts of prompts int64 [B]."""
        who, total, drawn = total_by_prompt(prompts, sums, counts, len(self._counts))
        if not len(who):
            return
        self._clock += 1
        kept = self.weight(who)
        self._sums[who] = kept * self._sums[who] + total
        self._counts[who] = kept * self._counts[who] + drawn
        self._last[who] = self._clock

    def totals(self, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums and counts as of each prompt's last observation, float64 [B] each."""
        return self._sums[prompts], self._counts[prompts]

    def weight(self, prompts: np.ndarray) -> np.ndarray:
        """Share of each prompt's evidence that is left, decay ** (steps since), float64 [B]."""
        return np.asarray(self._decay ** (self._clock - self._last[prompts]), dtype=np.float64)

    def known(self, prompts: np.ndarray) -> np.ndarray:
        """Those of `prompts` that were ever observed, ascending and without repeats."""
        return np.unique(prompts[self._last[prompts] >= 0])

    def recent(self, size: int) -> np.ndarray:
        """The `size` most recently observed prompts, ascending; of equal age the lowest."""
        seen = np.flatnonzero(self._last >= 0)
        newest = seen[np.argsort(-self._last[seen], kind="stable")[:size]]
        return np.sort(newest)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "sums": self._sums.copy(),
            "counts": self._counts.copy(),
            "last": self._last.copy(),
            "clock": np.array(self._clock),
        }

    def restore(self, state: State) -> None:
        size = self._counts.shape
        check_shapes(state, {"sums": size, "counts": size, "last": size, "clock": ()})
        self._sums = np.array(state["sums"], dtype=np.float64)
        self._counts = np.array(state["counts"], dtype=np.float64)
        self._last = np.array(state["last"], dtype=np.int64)
        self._clock = int(state["clock"])


def smoothed(successes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Posterior mean of p under Jeffreys' prior Beta(1/2, 1/2): (s + 1/2) / (n + 1)."""
    return np.asarray((successes + 0.5) / (counts + 1.0))


def logit(p: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), elementwise; p inside (0, 1)."""
    return np.asarray(np.log(p) - np.log1p(-p))


def sigmoid(g: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-g)), elementwise; |g| below 700."""
    return np.asarray(1.0 / (1.0 + np.exp(-g)))


def total_by_prompt(
    prompts: np.ndarray, sums: np.ndarray, counts: np.ndarray, prompt_count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct prompts with a count above 0, ascending, and their total sums and counts.

    Raises ValueError when shapes differ, a value is not finite, a count negative or a prompt
    outside [0, prompt_count).
    """
    if not prompts.shape == sums.shape == counts.shape:
        raise ValueError(f"prompts {prompts.shape}, sums {sums.shape}, counts {counts.shape}")
    if len(prompts) and not (prompts.min() >= 0 and prompts.max() < prompt_count):
        raise ValueError(f"a prompt index outside [0, {prompt_count})")
    if not (np.isfinite(sums).all() and (counts >= 0).all()):
        raise ValueError("a sum that is not finite, or a negative count")
    drawn = counts > 0
    who, place = np.unique(prompts[drawn], return_inverse=True)
    total = np.bincount(place, weights=sums[drawn], minlength=len(who))
    rollouts = np.bincount(place, weights=counts[drawn], minlength=len(who))
    return who, total, rollouts


def check_successes(successes: np.ndarray, counts: np.ndarray) -> None:
    """Raises ValueError where successes are NaN or not in [0, count]: rewards not on [0, 1]."""
    slack = 1e-9 * np.maximum(counts, 1)
    bad = np.flatnonzero(~((successes >= -slack) & (successes <= counts + slack)))
    if len(bad):
        first = bad[0]
        raise ValueError(
            f"{successes[first]} successes of {counts[first]} rollouts at position {first}"
        )


def joined(**parts: State) -> dict[str, np.ndarray]:
    """The states of several parts as one, with names `part.name`; `part` takes it apart."""
    return {f"{of}.{name}": array for of, state in parts.items() for name, array in state.items()}


def part(state: State, of: str) -> dict[str, np.ndarray]:
    """What `joined` was given under the name `of`."""
    prefix = f"{of}."
    return {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}


def without_embedding_shape(state: State, embeddings: np.ndarray) -> dict[str, np.ndarray]:
    """The rest of a state that was saved with `embedding_shape`.

    Raises InputError when that shape is not the one of `embeddings`, float32 [Q, D].
    """
    rest = dict(state)
    saved = tuple(rest.pop("embedding_shape", ()))
    if saved != embeddings.shape:
        raise InputError(
            f"the saved allocator state is of prompts x embedding size {_sizes(saved)}",
            _sizes(embeddings.shape),
            "resume with the data, model and allocator.embedding that it was saved under",
        )
    return rest


def check_shapes(state: State, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raises InputError when a predictor's state is not of `wanted` names and shapes."""
    got = {name: np.shape(array) for name, array in state.items()}
    if got != dict(wanted):
        raise InputError(
            f"the saved allocator state has {_listed(got)}",
            _listed(wanted),
            "resume with the data, model and allocator settings that the state was saved under",
        )


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(str(int(size)) for size in shape) or "unknown"


def _listed(shapes: Mapping[str, tuple[int, ...]]) -> str:
    named = (f"{name} {list(shape)}" for name, shape in sorted(shapes.items()))
    return ", ".join(named) or "no arrays"
