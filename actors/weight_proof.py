"""Proof that an engine computes with the weights it was sent."""

from __future__ import annotations

import numpy as np
from ray.exceptions import RayError

from actors.deadlines import within
from actors.engine import Engine
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import DeadlineError, SyncError, WeightsLost
from rlvr_platform.types import WeightSnapshot


async def prove(engine: Engine, snapshot: WeightSnapshot, config: ExperimentConfig) -> float:
    """Largest absolute difference of probe log-probabilities, engine against learner, nats.

    Raises SyncError when the engine names another version or differs beyond the tolerance,
    WeightsLost when the learner does not say what it expects.
    """
    version = await engine.version()
    if version != snapshot.version:
        raise SyncError(
            f"the engine says its weights are version {version} after the update",
            f"version {snapshot.version}",
        )
    answer = await engine.logprobs(snapshot.probe_tokens)
    limit_s, who = config.sync.timeout_s, "the learner's probe"
    try:
        expected = await within(snapshot.probe_logprobs, limit_s, who, "see the learners' logs")
    except (RayError, DeadlineError) as error:
        raise WeightsLost(f"the learner does not say what to expect: {error}") from None
    difference = np.abs(answer - expected)
    worst, limit = float(difference.max()), config.probe_tolerance
    if not worst <= limit:  # also true for NaN
        where = int(difference.argmax()) + 1
        raise SyncError(
            f"the engine's log-probabilities differ from the learner's by {worst:.3g} nats "
            f"at probe token {where}: it does not compute with the weights it was sent",
            f"at most {limit:g} nats",
            "sync.probe_tolerance sets the limit; compare rollout.engine.dtype and learner.dtype",
        )
    return worst
