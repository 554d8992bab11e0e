"""Versioned weights on their way from the learners to the engines.

A transport has two sides. The learner's side turns the policy's tensors into a `handle`
inside a `WeightSnapshot`; the engine's side turns the handle into update messages for
vLLM's weight-transfer protocol. `prove` is the same for all of them.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.engine import Engine
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError, SyncError
from rlvr_platform.types import WeightSnapshot

SHARED_MEMORY = Path("/dev/shm")

CHUNK_BYTES = 1 << 30
"""Tensors are sent in chunks of about this size, so that a big model never exists twice."""

FLOAT32_TOLERANCE = 1e-3
HALF_PRECISION_TOLERANCE = 0.25
"""Largest legal probe difference by precision, nats."""


def put_chunks(tensors: Iterable[tuple[str, Any]]) -> tuple[list[Any], int]:
    """Learner's side: put the tensors into the object store; returns references and bytes."""
    from safetensors.torch import save as to_safetensors

    references, total = [], 0
    for chunk in _chunks(tensors):
        blob = np.frombuffer(to_safetensors(chunk), dtype=np.uint8)
        references.append(ray.put(blob))
        total += blob.nbytes
    return references, total


def _chunks(tensors: Iterable[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    chunk: dict[str, Any] = {}
    size = 0
    for name, tensor in tensors:
        chunk[name] = tensor.detach().cpu().contiguous()
        size += tensor.numel() * tensor.element_size()
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = {}, 0
    if chunk:
        yield chunk


async def file_updates(references: list[Any]) -> AsyncIterator[dict[str, Any]]:
    """Engine's side: each chunk as a file in node-local shared memory, gone after its use.

    A path, because arrays sent through the engine's own RPC arrive as lists.
    """
    for reference in references:
        blob = await reference
        path = SHARED_MEMORY / f"rlvr-{os.getpid()}-{uuid.uuid4().hex}.safetensors"
        try:
            await asyncio.to_thread(_write, path, blob)
            yield {"path": str(path)}
        finally:
            path.unlink(missing_ok=True)


def _write(path: Path, blob: np.ndarray) -> None:
    try:
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(memoryview(blob))
    except OSError as error:
        raise ClusterError(
            f"cannot write {blob.nbytes >> 20} MiB of weights to shared memory: {error}",
            f"that much free space in {SHARED_MEMORY}",
            f"enlarge it (mount -o remount,size=... {SHARED_MEMORY}, or --shm-size in a container)",
        ) from None


async def prove(engine: Engine, snapshot: WeightSnapshot, config: ExperimentConfig) -> float:
    """Largest absolute difference of probe log-probabilities, engine against learner, nats.

    Raises SyncError when the engine names another version or differs beyond the tolerance.
    """
    version = await engine.version()
    if version != snapshot.version:
        raise SyncError(
            f"the engine says its weights are version {version} after the update",
            f"version {snapshot.version}",
        )
    answer = await engine.logprobs(snapshot.probe_tokens)
    difference = np.abs(answer - snapshot.probe_logprobs)
    worst, limit = float(difference.max()), tolerance(config)
    if not worst <= limit:  # also true for NaN
        where = int(difference.argmax()) + 1
        raise SyncError(
            f"the engine's log-probabilities differ from the learner's by {worst:.3g} nats "
            f"at probe token {where}: it does not compute with the weights it was sent",
            f"at most {limit:g} nats",
            "sync.probe_tolerance sets the limit; compare rollout.engine.dtype and learner.dtype",
        )
    return worst


def tolerance(config: ExperimentConfig) -> float:
    """The largest legal probe difference for this configuration, nats."""
    if config.sync.probe_tolerance is not None:
        return config.sync.probe_tolerance
    exact = config.rollout.engine.dtype == config.learner.dtype == "float32"
    return FLOAT32_TOLERANCE if exact else HALF_PRECISION_TOLERANCE
