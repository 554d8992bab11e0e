"""Nothing that is not finite gets past the engine, at any ZeRO stage, on any rank."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch

from rlvr_platform.batching.rows import Rows
from rlvr_platform.config import ExperimentConfig

DEADLINE_S = 180.0
LAYOUTS = [
    (0, "float32"),
    (1, "bfloat16"),
    (2, "float32"),
    (3, "float32"),
    (3, "bfloat16"),
]


def rows_of(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, size=6)
    total = int(lengths.sum())
    within = np.concatenate([np.arange(length) for length in lengths])
    return Rows(
        tokens=rng.integers(2, 16, total).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        trained=within >= 2,
        behaviour=rng.normal(-2.5, 0.2, total).astype(np.float32),
        advantage=rng.normal(size=6).astype(np.float32),
        weight=np.full(6, 0.1, np.float32),
        group=np.arange(6, dtype=np.int32),
        prompt_length=np.full(6, 2),
    )


def faulty_rows(seed: int, fault: str) -> Rows:
    """Rows whose longest one, in the first micro-batch, breaks the loss or only the gradient."""
    rows = rows_of(seed)
    first = int(rows.lengths.argmax())
    if fault == "loss":
        rows.behaviour[rows.offsets[first] + 2] = np.nan
    if fault == "gradient":
        rows.weight[first] = 3e36
    return rows


def digest(tree: Any) -> str:
    """SHA-256 of every tensor in nested containers."""
    sums = hashlib.sha256()

    def walk(node: Any) -> None:
        if isinstance(node, torch.Tensor):
            flat = node.detach().cpu().contiguous().reshape(-1)
            sums.update(flat.view(torch.uint8).numpy().tobytes())
        elif isinstance(node, dict):
            for value in node.values():
                walk(value)
        elif isinstance(node, list | tuple):
            for value in node:
                walk(value)

    walk(tree)
    return sums.hexdigest()


@ray.remote
class Rank:
    """One process that builds one engine after the other."""

    def __init__(self, rank: int, address: str, port: int) -> None:
        from actors.learner import distributed_environment

        os.environ.update(distributed_environment(rank, 2, address, port))
        self._rank = rank

    def build(self, config: ExperimentConfig, model: str) -> None:
        from actors.deepspeed_engine import DeepSpeedEngine

        self._config = config
        self._engine = DeepSpeedEngine(config, model)

    def mapped(self) -> str:
        return Path("/proc/self/maps").read_text()

    def step(self, rows: Rows) -> tuple[float, str]:
        """Gradient norm, or NaN and why the step was refused."""
        from rlvr_platform.guards import NonFiniteUpdate
        from rlvr_platform.update import lay_out, optimizer_step

        engine, config = self._engine, self._config
        minibatch = lay_out(rows, config.learner, engine.policy.chunks, engine.most)
        assert len(minibatch.micro_batches) > 1
        try:
            _, norm = optimizer_step(engine, minibatch, None, None, config.algorithm, 1e-2)
        except NonFiniteUpdate as refused:
            return float("nan"), refused.got
        return norm, ""

    def state(self) -> tuple[int, str]:
        """Steps taken, and the digest of weights and optimizer."""
        weights = [tensor.clone() for _, tensor in self._engine.gather("float32")]
        optimizer = self._engine._engine.optimizer.state_dict()
        return self._engine.steps, digest([weights, optimizer])


@pytest.fixture(scope="module")
def ranks(ray_session: None) -> Iterator[list[Any]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    env = {"runtime_env": {"env_vars": {"OMP_NUM_THREADS": "1"}}}
    actors = [Rank.options(**env).remote(rank, "127.0.0.1", port) for rank in range(2)]
    yield actors
    for actor in actors:
        ray.kill(actor)


def everywhere(ranks: list[Any], method: str, *arguments: list[Any]) -> list[Any]:
    calls = [
        getattr(rank, method).remote(*own)
        for rank, own in zip(ranks, list(zip(*arguments, strict=True)) or [()] * 2, strict=True)
    ]
    return ray.get(calls, timeout=DEADLINE_S)


@pytest.mark.parametrize(("zero_stage", "dtype"), LAYOUTS)
def test_a_refused_step_leaves_no_trace_in_weights_optimizer_or_what_follows(
    ranks: list[Any], config: ExperimentConfig, tiny_model: str, zero_stage: int, dtype: str
) -> None:
    learner = config.learner.model_copy(
        update={"ranks": 2, "zero_stage": zero_stage, "dtype": dtype, "tokens_per_micro_batch": 24}
    )
    own = [config.model_copy(update={"learner": learner})] * 2
    good, onward = [rows_of(1), rows_of(2)], [rows_of(3), rows_of(4)]

    everywhere(ranks, "build", own, [tiny_model] * 2)
    everywhere(ranks, "step", good)
    everywhere(ranks, "step", onward)
    expected = everywhere(ranks, "state")

    everywhere(ranks, "build", own, [tiny_model] * 2)
    assert all(norm > 0 for norm, _ in everywhere(ranks, "step", good))
    before = everywhere(ranks, "state")
    assert before != expected
    for fault in ("loss", "gradient"):
        results = everywhere(ranks, "step", [rows_of(5), faulty_rows(6, fault)])
        assert all(np.isnan(norm) for norm, _ in results)
        innocent, guilty = (reason for _, reason in results)
        if fault == "loss":
            assert innocent == "the loss of another rank is not finite"
            assert guilty == "the loss is nan; not finite among the inputs of the loss: behaviour"
        else:
            assert all("the gradient norm is inf" in reason for reason in (innocent, guilty))
        assert everywhere(ranks, "state") == before
    assert all(norm > 0 for norm, _ in everywhere(ranks, "step", onward))
    assert everywhere(ranks, "state") == expected


def test_deepspeed_makes_no_shared_memory_that_a_killed_rank_would_leave(ranks: list[Any]) -> None:
    for maps in everywhere(ranks, "mapped"):
        assert "torch" in maps
        assert "deepspeed" not in maps.replace("site-packages/deepspeed", "")
