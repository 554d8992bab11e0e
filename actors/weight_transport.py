"""How weights travel from the learners to the engines: three transports, one interface.

The learner's side turns the policy's tensors into a `handle` (`publish`), and may have to take
part while engines load (`send`). The engine's side turns the handle into the messages of
vLLM's weight-transfer protocol (`updates`).

    object_store  chunks in Ray's object store, then a file in the memory of the rollout worker
    nccl          one broadcast from learner rank 0 to all engines; the handle is metadata
    ipc           GPU memory handles; engine and learner rank share the GPU
"""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO, Protocol

import numpy as np
import ray

from rlvr_platform.errors import ClusterError

CHUNK_BYTES = 1 << 30
"""Tensors go into the object store in chunks of about this size: a big model never exists twice."""

Tensors = Iterable[tuple[str, Any]]
"""Names and full tensors; iterating is collective over learner ranks."""


class Publisher(Protocol):
    """The learner's side of a transport, one per rank; every method is collective."""

    def open(self, address: str, port: int, engines: int) -> None:
        """Connect to `engines` engine processes, which connect at the same time."""
        ...

    def publish(self, tensors: Tensors) -> tuple[Any, int]:
        """Make the tensors available; returns this rank's handle and the bytes published."""
        ...

    def send(self, tensors: Tensors) -> None:
        """Take part while the engines load, where the transport needs it."""
        ...


def publisher(transport: str, rank: int) -> Publisher:
    """The learner's side that `sync.transport` names."""
    transports: dict[str, Callable[[int], Publisher]] = {
        "object_store": ObjectStore,
        "nccl": Nccl,
        "ipc": Ipc,
    }
    return transports[transport](rank)


def engine_init(
    transport: str, address: str, port: int, worker: int, workers: int, devices: int
) -> dict[str, Any]:
    """What engine `worker` of `workers`, with `devices` processes each, needs to connect."""
    if transport == "nccl":
        return {
            "master_address": address,
            "master_port": port,
            "rank_offset": 1 + worker * devices,
            "world_size": 1 + workers * devices,
            "packed": True,
        }
    return {"packed": False} if transport == "ipc" else {}


async def updates(
    transport: str, handles: Sequence[Any], worker: int
) -> AsyncIterator[dict[str, Any]]:
    """The engine's side: the update messages that load what was published.

    `handles` has one entry per learner rank; with ipc, worker i reads from rank i.
    """
    if transport == "object_store":
        async for update in _file_updates(handles[0]):
            yield update
    else:
        yield handles[worker if transport == "ipc" else 0]


class ObjectStore:
    """Rank 0 puts safetensors chunks into the object store."""

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def open(self, address: str, port: int, engines: int) -> None:
        """There is no connection to open."""

    def publish(self, tensors: Tensors) -> tuple[list[Any], int]:
        from safetensors.torch import save

        references, total = [], 0
        for chunk in _chunks(tensors, keep=self._rank == 0):
            blob = np.frombuffer(save(chunk), dtype=np.uint8)
            references.append(ray.put(blob))
            total += blob.nbytes
        return references, total

    def send(self, tensors: Tensors) -> None:
        """The object store has them."""


class Nccl:
    """Rank 0 broadcasts packed tensors to all engines."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._group: Any = None

    def open(self, address: str, port: int, engines: int) -> None:
        if self._rank != 0:
            return
        from vllm.distributed.weight_transfer.nccl_common import trainer_init

        self._group = trainer_init(
            {"master_address": address, "master_port": port, "world_size": 1 + engines}
        )

    def publish(self, tensors: Tensors) -> tuple[dict[str, Any], int]:
        listed = [
            (name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor.nbytes)
            for name, tensor in tensors
        ]
        names, dtypes, shapes, sizes = (list(column) for column in zip(*listed, strict=True))
        return {"names": names, "dtype_names": dtypes, "shapes": shapes}, sum(sizes)

    def send(self, tensors: Tensors) -> None:
        if self._rank != 0:
            for _ in tensors:
                pass
            return
        import torch
        from vllm.distributed.weight_transfer.packed_tensor import packed_nccl_broadcast_producer

        packed_nccl_broadcast_producer(
            iterator=iter(tensors), group=self._group, src=0, post_iter_func=lambda item: item[1]
        )
        torch.cuda.current_stream().synchronize()


class Ipc:
    """Every rank exports its tensors to the engine that shares its GPU."""

    def __init__(self, rank: int) -> None:
        self._exported: list[Any] = []

    def open(self, address: str, port: int, engines: int) -> None:
        """There is no connection to open."""

    def publish(self, tensors: Tensors) -> tuple[dict[str, Any], int]:
        import torch
        from torch.multiprocessing.reductions import reduce_tensor

        gpu = str(torch.cuda.get_device_properties(0).uuid)
        # A handle does not keep memory alive: hold the tensors until the next publication.
        self._exported = [(name, tensor.contiguous().clone()) for name, tensor in tensors]
        handles = [{gpu: reduce_tensor(tensor)[1]} for _, tensor in self._exported]
        torch.cuda.synchronize()
        return {
            "names": [name for name, _ in self._exported],
            "dtype_names": [str(t.dtype).removeprefix("torch.") for _, t in self._exported],
            "shapes": [list(tensor.shape) for _, tensor in self._exported],
            # The engine's message format has no type for these; vLLM takes them in this form.
            "ipc_handles_pickled": base64.b64encode(pickle.dumps(handles)).decode(),
        }, sum(tensor.nbytes for _, tensor in self._exported)

    def send(self, tensors: Tensors) -> None:
        """The engine reads the exported memory itself."""


def _chunks(tensors: Tensors, keep: bool) -> Iterator[dict[str, Any]]:
    """Copies on the CPU in chunks; without `keep`, only takes part in the iteration."""
    chunk: dict[str, Any] = {}
    size = 0
    for name, tensor in tensors:
        if not keep:
            continue
        chunk[name] = tensor.detach().cpu().contiguous()
        size += tensor.nbytes
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = {}, 0
    if chunk:
        yield chunk


async def _file_updates(references: list[Any]) -> AsyncIterator[dict[str, Any]]:
    """Each chunk as a file of this process's memory, which its death cannot leave behind.

    A path, because arrays sent through the engine's own RPC arrive as lists. The engine is this
    process's child, so the path leads there for it too, and for nobody but this user.
    """
    for reference in references:
        blob = await reference
        with await asyncio.to_thread(_memory_file, blob) as file:
            yield {"path": f"/proc/{os.getpid()}/fd/{file.fileno()}"}


def _memory_file(blob: np.ndarray) -> BinaryIO:
    """A file in memory without a name in any folder; it is gone with its last user."""
    try:
        with ExitStack() as until_written:
            file = until_written.enter_context(os.fdopen(os.memfd_create("rlvr-weights"), "wb"))
            file.write(blob.data)
            file.flush()
            until_written.pop_all()
            return file
    except OSError as error:
        raise ClusterError(
            f"cannot hold {blob.nbytes >> 20} MiB of weights in memory for the engine: {error}",
            "that much free memory beside the engine, see rollout.engine",
            "free some memory on the node, or raise the container's limit",
        ) from None
