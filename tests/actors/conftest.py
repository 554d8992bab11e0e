"""One Ray, one tiny model, one engine for all actor tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from actors.rollouts import RemoteRollouts
from actors.supervision import Supervision
from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.config.model import ArithmeticModel
from rlvr_platform.config.supervision import SupervisionConfig

ROOT = Path(__file__).parents[2]
MAX_NEW_TOKENS = 48


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random character-level model with tied embeddings, as a Hugging Face folder."""
    # Not above: this module is loaded in every actor of these tests.
    from rlvr_platform.models.arithmetic import character_tokenizer, new_model

    folder = tmp_path_factory.mktemp("model")
    tokenizer = character_tokenizer()
    shape = ArithmeticModel(hidden_size=64, layers=2, heads=2)
    new_model(shape, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def config(tiny_model: str) -> ExperimentConfig:
    return load_config(
        ROOT / "configs/dev/arithmetic.yaml",
        [
            f"model={{kind: pretrained, path: {tiny_model}}}",
            f"rollout.max_new_tokens={MAX_NEW_TOKENS}",
            "rollout.temperature=0.7",
            "rollout.engine.threads=1",
            "learner.threads=1",
            "learner.tokens_per_micro_batch=128",
        ],
    )


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    ray.init(
        address="local",
        num_cpus=8,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=512 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": ":".join([str(ROOT), *sys.path])}},
    )
    yield
    ray.shutdown()


class Events(list[dict[str, Any]]):
    """What roles say of themselves."""

    def __call__(self, kind: str, **fields: Any) -> None:
        self.append({"kind": kind, **fields})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self if event["kind"] == kind]


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def supervision(events: Events) -> Supervision:
    return Supervision(SupervisionConfig(backoff_s=0.01, call_timeout_s=20), events)


@pytest.fixture
def rollouts(worker: Any, config: ExperimentConfig, supervision: Supervision) -> RemoteRollouts:
    """The session's worker behind its port; it is never lost here."""

    async def no_weights() -> Any:
        raise AssertionError("nobody is replaced")

    return RemoteRollouts(lambda index: worker, config, no_weights, supervision)


@pytest.fixture(scope="session")
def worker(ray_session: None, config: ExperimentConfig, tiny_model: str) -> Iterator[Any]:
    """A rollout worker whose engine holds the tiny model as version 0."""
    from actors.engine import engine_environment
    from actors.rollout_worker import RolloutWorkerActor

    options = {"runtime_env": {"env_vars": engine_environment(config)}}
    actor = RolloutWorkerActor.options(**options).remote(3, config, tiny_model)
    ray.get(actor.start.remote(), timeout=300)
    ray.get(actor.connect.remote({}), timeout=60)
    yield actor
    ray.get(actor.stop.remote(), timeout=60)
    ray.kill(actor)
