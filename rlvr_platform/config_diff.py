"""How two configurations differ, and which differences a resumed run may have.

A resumed run may change what does not change what it computes: where it runs, what is
recorded and measured, deadlines, settings that only trade memory for time, and what follows a
step that cannot be taken. `steps` may grow when the learning rate does not depend on it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlvr_platform.config import ExperimentConfig

_FREE = re.compile(
    r"""(cluster|telemetry|evaluation|checkpoint|sync)\..*
    | .*_timeout_s
    | .*\.threads
    | verifier\.pool\..*
    | rollout\.workers
    | rollout\.engine\.(kv_cache_gib|gpu_memory_fraction|max_sequences|max_batched_tokens)
    | learner\.(tokens_per_micro_batch|layout|logprob_chunk_tokens|gradient_checkpointing)
    | learner\.on_non_finite
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Difference:
    key: str
    """Dotted path in the tree."""
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key}: {json.dumps(self.old)} -> {json.dumps(self.new)}"


def differences(old: ExperimentConfig, new: ExperimentConfig) -> list[Difference]:
    """Every key whose value differs, in the order of the tree; an absent key is None."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    keys = dict.fromkeys([*before, *after])
    pairs = [Difference(key, before.get(key), after.get(key)) for key in keys]
    return [d for d in pairs if d.old != d.new]


def refused(old: ExperimentConfig, new: ExperimentConfig) -> list[str]:
    """The differences that make `new` another run than `old`, each as a line."""
    lines = []
    for difference in differences(old, new):
        if difference.key == "steps":
            lines += _steps_problem(difference, new)
        elif not _FREE.fullmatch(difference.key):
            lines.append(str(difference))
    return lines


def _steps_problem(difference: Difference, config: ExperimentConfig) -> list[str]:
    schedule = config.learner.optimizer.schedule
    if difference.new < difference.old:
        return [f"{difference} (may only grow)"]
    if schedule != "constant":
        return [f"{difference} (the {schedule} schedule ends at the last step)"]
    return []


def _leaves(config: ExperimentConfig) -> Iterator[tuple[str, Any]]:
    yield from _walk("", config.model_dump(mode="json"))


def _walk(prefix: str, tree: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _walk(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value
