"""Proof that an engine computes with the weights it was sent."""

from __future__ import annotations

import numpy as np

from actors.engine import Engine
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import SyncError
from rlvr_platform.types import WeightSnapshot

FLOAT32_TOLERANCE = 1e-3
HALF_PRECISION_TOLERANCE = 0.5
"""Largest legal probe difference by precision, nats. The probe is made of random tokens, which
get large logits: a 135M model in bfloat16 was 0.32 off with the right weights, where weights that
never arrived are off by several nats. Only float32 can prove a single small update."""


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
