"""Weights on their way into a real engine, and the proof that they arrived."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray
import torch
from transformers import AutoModelForCausalLM

from actors.rollouts import RemoteRollouts
from actors.weight_transport import (
    _chunks,
    _file_updates,
    _memory_file,
    engine_init,
    publisher,
)
from rlvr_platform.errors import ClusterError, SyncError
from rlvr_platform.types import Prompt, Ticket, WeightSnapshot

PROBE = (np.arange(16) % 14 + 2).astype(np.int32)


def perturbed(folder: str, seed: int) -> Any:
    """The tiny model with other weights."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=noise))
    return model


def snapshot(model: Any, version: int) -> WeightSnapshot:
    """What a learner would publish of `model`."""
    handle, size = publisher("object_store", rank=0).publish(model.named_parameters())
    ids = torch.tensor(PROBE.astype(np.int64))
    with torch.no_grad():
        logprobs = model(ids[None]).logits[0, :-1].log_softmax(-1)
    chosen = logprobs.gather(-1, ids[1:, None]).squeeze(-1).numpy()
    return WeightSnapshot(version, (handle,), size, PROBE, ray.put(chosen), 0.0)


def load(worker: Any, published: WeightSnapshot) -> float:
    return ray.get(worker.load.remote(published), timeout=120).probe_max_abs_diff


@pytest.fixture
def untied_repair(worker: Any) -> Any:
    """Switch the engine's repair of tied heads off, and on again afterwards."""
    ray.get(worker.connect.remote({"retie_head": False}), timeout=60)
    yield
    ray.get(worker.connect.remote({"retie_head": True}), timeout=60)


def test_an_engine_proves_new_weights_to_single_precision(worker: Any, tiny_model: str) -> None:
    for version in (1, 2):
        assert load(worker, snapshot(perturbed(tiny_model, version), version)) < 1e-4


def test_weights_in_transit_have_no_name_that_could_stay_behind() -> None:
    blob = np.frombuffer(b"weights" * 1000, np.uint8)

    async def scenario() -> tuple[bytes, Path]:
        reference: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        reference.set_result(blob)
        async for update in _file_updates([reference]):
            path = Path(update["path"])
            assert not any("rlvr" in name.name for name in Path("/dev/shm").iterdir())
            child = [sys.executable, "-c", f"print(open({str(path)!r}, 'rb').read().hex())"]
            read = bytes.fromhex(subprocess.check_output(child, text=True))
        return read, path

    read, path = asyncio.run(scenario())
    assert read == blob.tobytes()
    assert not path.exists()


def test_an_abandoned_load_gives_the_memory_back() -> None:
    async def scenario() -> Path:
        reference: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        reference.set_result(np.zeros(1000, np.uint8))
        updates = _file_updates([reference])
        path = Path((await anext(updates))["path"])
        assert path.exists()
        await updates.aclose()
        return path

    assert not asyncio.run(scenario()).exists()


def test_without_the_repair_a_tied_head_stays_old_and_the_proof_catches_it(
    worker: Any, tiny_model: str, untied_repair: None
) -> None:
    with pytest.raises(SyncError, match=r"rollout worker 3, version 4: .* differ from the learner"):
        load(worker, snapshot(perturbed(tiny_model, 4), 4))


def test_after_a_failed_proof_the_next_update_works(worker: Any, tiny_model: str) -> None:
    assert load(worker, snapshot(perturbed(tiny_model, 5), 5)) < 1e-4


def test_weights_that_are_not_the_learners_are_caught(worker: Any, tiny_model: str) -> None:
    sent, claimed = (snapshot(perturbed(tiny_model, seed), 6) for seed in (6, 7))
    lie = WeightSnapshot(6, sent.handles, sent.nbytes, PROBE, claimed.probe_logprobs, 0.0)
    with pytest.raises(SyncError, match="it does not compute with the weights it was sent"):
        load(worker, lie)


def test_requests_in_flight_go_on_under_the_new_weights(
    worker: Any, rollouts: RemoteRollouts, tiny_model: str
) -> None:
    load(worker, snapshot(perturbed(tiny_model, 8), 8))
    published = snapshot(perturbed(tiny_model, 9), 9)
    prompt = Prompt(0, "", np.array([3, 4, 5], np.int32), "", "test")
    wanted = [Ticket(i, 1, prompt, 16, 100 * i) for i in range(16)]

    async def scenario() -> list[Any]:
        async def generate() -> list[Any]:
            stream = worker.generate.options(num_returns="streaming").remote(wanted, 1.0)
            parts = [await part async for part in stream]
            return [group for groups in parts[::2] for group in groups]

        generating = asyncio.create_task(generate())
        await asyncio.sleep(0.05)
        await worker.load.remote(published)
        return await generating

    groups = asyncio.run(scenario())
    rows = [group.versions[group.sibling(i)] for group in groups for i in range(group.size)]
    assert len(rows) == 256
    assert {int(v) for row in rows for v in row} <= {8, 9}
    assert all((np.diff(row) >= 0).all() for row in rows)
    assert any(row[0] == 8 and row[-1] == 9 for row in rows)


def test_chunks_hold_every_tensor_once_and_respect_the_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.weight_transport.CHUNK_BYTES", 100)
    tensors = [(f"t{i}", torch.full((10,), float(i))) for i in range(7)]
    chunks = list(_chunks(tensors, keep=True))
    assert [name for chunk in chunks for name in chunk] == [name for name, _ in tensors]
    assert [len(chunk) for chunk in chunks] == [3, 3, 1]
    assert list(_chunks(tensors, keep=False)) == []


def test_nccl_ranks_of_all_engine_processes_are_distinct_and_leave_0_to_the_learner() -> None:
    infos = [engine_init("nccl", "10.0.0.1", 5, worker, 3, devices=2) for worker in range(3)]
    ranks = [info["rank_offset"] + device for info in infos for device in range(2)]
    assert ranks == [1, 2, 3, 4, 5, 6]
    assert {info["world_size"] for info in infos} == {7}


def test_memory_that_does_not_take_the_weights_is_one_clear_error() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(ClusterError, match="cannot hold 3 MiB of weights"):
            _memory_file(np.zeros(3 << 20, np.uint8))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
