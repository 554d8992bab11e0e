"""The learner actor: one DeepSpeed rank."""

from __future__ import annotations

import dataclasses
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.groups import get_groups
from actors.processes import Member
from actors.weight_transport import publisher
from rlvr_platform.batching.rows import gather_rows
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.memory import peak_memory
from rlvr_platform.runtime import default_environment
from rlvr_platform.schedule import learning_rate
from rlvr_platform.types import TokenSums, TrainBatch

PROBE_SEED = 0


def distributed_environment(rank: int, world: int, address: str, port: int) -> dict[str, str]:
    """What DeepSpeed wants to find in the environment; without it, it looks for MPI.

    Each rank sees only its own device, so its local rank is 0.
    """
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": "0",
        "LOCAL_SIZE": "1",
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


@dataclass(frozen=True, slots=True)
class RankReport:
    """What one rank did in one update."""

    sums: TokenSums
    grad_norm: float
    """Global norm of the last optimizer step, the same on every rank."""
    learning_rate: float
    optimizer_steps: int
    """Since the start of the run."""
    micro_batches: int
    refused: tuple[str, ...]
    """One entry for each optimizer step that was not taken: what was not finite on this rank and
    where its rows are, empty when it was another rank's."""
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """What one rank made available."""

    handle: Any
    nbytes: int
    probe_tokens: np.ndarray
    """int32 [P], the same on every rank."""
    seconds: float


@ray.remote
class LearnerActor(Member):
    """One rank. Every method but `address` is collective: all ranks are called together."""

    def __init__(self, rank: int, config: ExperimentConfig, model: str, offending: Path) -> None:
        """`offending`: where the rows of updates that are not finite go."""
        self._rank = rank
        self._offending = offending
        self._config = config
        self._model = model
        self._total_steps = config.steps * config.learner.minibatches

    def address(self) -> tuple[str, int]:
        """This node's address and a free port, for rank 0 to be found by the others."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            return ray.util.get_node_ip_address(), listener.getsockname()[1]

    def start(self, address: str, port: int) -> float:
        """Join the process group and build the engine; returns the seconds it took."""
        began = time.perf_counter()
        world = self._config.learner.ranks
        os.environ.update(default_environment(self._config.cluster.device))
        os.environ.update(distributed_environment(self._rank, world, address, port))
        # Only now: torch reads its environment at import.
        from actors.deepspeed_engine import DeepSpeedEngine, load_policy

        self._engine = DeepSpeedEngine(self._config, self._model)
        self._reference = None
        if self._config.algorithm.kl.estimator != "none":
            self._reference = load_policy(self._config, self._model, self._engine.device)
        self._publisher = publisher(self._config.sync.transport, self._rank)
        self._probe = _probe_tokens(self._engine.policy, self._config.sync.probe_tokens)
        return time.perf_counter() - began

    def connect(self, address: str, port: int, engines: int) -> None:
        """Open the learner's side of the weight transport."""
        self._publisher.open(address, port, engines)

    def update(self, shards: Sequence[TrainBatch]) -> RankReport:
        """One optimizer step per shard."""
        from rlvr_platform.guards import NonFiniteUpdate
        from rlvr_platform.update import lay_out, optimizer_step, score_frozen

        began = time.perf_counter()
        engine, learner = self._engine, self._config.learner
        chunks = engine.policy.chunks
        steps = [lay_out(_fetch(s), learner, chunks, engine.most) for s in shards]
        reference = [self._score_reference(step) for step in steps]
        moving = len(steps) > 1
        old = [score_frozen(engine, s, engine.device) if moving else None for s in steps]
        sums, norm, rate = TokenSums(), 0.0, 0.0
        refused: list[str] = []
        for i, step in enumerate(steps):
            rate = learning_rate(engine.steps, self._total_steps, learner.optimizer)
            try:
                terms, norm = optimizer_step(
                    engine, step, old[i], reference[i], self._config.algorithm, rate
                )
            except NonFiniteUpdate as refusal:
                refused.append(self._keep(refusal, shards[i].step, i))
                if learner.on_non_finite == "stop":
                    break
                continue
            sums = sums + terms
        taken = max(1, len(steps) - len(refused))
        sums = dataclasses.replace(sums, loss=sums.loss / taken)
        passes = sum(len(step.micro_batches) for step in steps)
        seconds = time.perf_counter() - began
        return RankReport(sums, norm, rate, engine.steps, passes, tuple(refused), seconds)

    def _keep(self, refusal: Any, step: int, minibatch: int) -> str:
        """Save this rank's offending rows; empty when it has none."""
        from rlvr_platform.guards import Place, keep

        if refusal.evidence is None:
            return ""
        return keep(refusal.evidence, self._offending, Place(step, self._rank, minibatch))

    def _score_reference(self, minibatch: Any) -> Any:
        from rlvr_platform.update import score_frozen

        if self._reference is None:
            return None
        return score_frozen(self._reference, minibatch, self._engine.device)

    def publish(self) -> Published:
        """Make the weights available."""
        began = time.perf_counter()
        handle, size = self._publisher.publish(self._tensors())
        return Published(handle, size, self._probe, time.perf_counter() - began)

    def probe(self) -> np.ndarray:
        """float32 [P-1]: log-probabilities of the probe, to prove the weights' arrival by."""
        return self._engine.probe(self._probe)

    def send(self) -> None:
        """Take part while the engines load, where the transport needs it."""
        self._publisher.send(self._tensors())

    def _tensors(self) -> Any:
        return self._engine.gather(self._config.rollout.engine.dtype)

    def save(self, folder: str) -> None:
        """Write the model as a Hugging Face folder (rank 0) and every rank's optimizer state."""
        self._engine.save_optimizer(Path(folder, "optimizer"))
        self._engine.save_model(Path(folder, "model"), self._model)

    def load(self, folder: str) -> None:
        self._engine.load_optimizer(Path(folder, "optimizer"))

    def peak_memory(self) -> dict[str, int]:
        """Peak resident bytes of this process; of the device on a GPU."""
        return {"learner": self._engine.peak_device_memory() or peak_memory()}


def _fetch(shard: TrainBatch) -> Any:
    """Get this shard's groups, and nothing else, out of the object store."""
    return gather_rows(shard, get_groups(shard.handles))


def _probe_tokens(policy: Any, length: int) -> np.ndarray:
    vocabulary = policy.causal_lm.config.get_text_config().vocab_size
    return np.random.default_rng(PROBE_SEED).integers(vocabulary, size=length, dtype=np.int32)
