"""How weights travel from the learners to the engines, and the proof that they arrived."""

from typing import Literal

from rlvr_platform.config.base import Section, setting


class SyncConfig(Section):
    transport: Literal["object_store", "nccl", "ipc"] = setting(
        "object_store",
        "object_store: Ray object store, then node-local shared memory; any device. "
        "nccl: GPU to GPU. ipc: GPU memory handles, learner and engine on one GPU.",
    )
    timeout_s: float = setting(300.0, "Deadline of each phase of a sync. Seconds.", gt=0)
    probe_tokens: int = setting(
        32, "Length of the probe prompt whose log-probabilities prove the sync. Tokens.", ge=2
    )
    probe_tolerance: float | None = setting(
        None,
        "Largest allowed difference of probe log-probabilities, nats; unset: 1e-3 when engine "
        "and learner compute in float32, 0.5 otherwise.",
        gt=0,
    )
