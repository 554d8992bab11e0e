from pathlib import Path

import pytest

from actors import placement
from actors.placement import demand, require_supply
from rlvr_platform.config import ExperimentConfig, load_config
from rlvr_platform.errors import ClusterError

CONFIG = Path(__file__).parents[2] / "configs/dev/arithmetic.yaml"


def config(*overrides: str) -> ExperimentConfig:
    return load_config(CONFIG, overrides)


def supply(monkeypatch: pytest.MonkeyPatch, *nodes: dict[str, float]) -> None:
    total: dict[str, float] = {}
    for node in nodes:
        for resource, count in node.items():
            total[resource] = total.get(resource, 0) + count
    monkeypatch.setattr(placement.ray, "cluster_resources", lambda: total)
    listed = [{"Alive": True, "Resources": node} for node in nodes]
    monkeypatch.setattr(placement.ray, "nodes", lambda: listed)


def test_every_actor_has_a_bundle_and_the_services_share_one() -> None:
    wanted = demand(config("rollout.workers=2", "learner.ranks=3"))
    assert wanted.bundles == ({"CPU": 1.0},) * 6
    assert wanted.worker_bundle == (0, 1)
    assert wanted.learner_bundle == (2, 3, 4)
    assert wanted.services_bundle == 5


def test_on_gpus_an_engine_takes_its_tensor_parallel_size_and_a_learner_one() -> None:
    wanted = demand(config("cluster.device=gpu", "rollout.engine.tensor_parallel=4"))
    assert wanted.bundles == ({"CPU": 1.0, "GPU": 4.0}, {"CPU": 1.0, "GPU": 1.0}, {"CPU": 1.0})
    assert (wanted.gpus_per_worker, wanted.gpus_per_learner) == (4.0, 1.0)


def test_colocated_pairs_share_a_bundle_and_halve_its_gpu() -> None:
    wanted = demand(
        config(
            *("cluster.device=gpu", "cluster.colocate=true", "sync.transport=ipc"),
            *("rollout.workers=2", "learner.ranks=2"),
        )
    )
    assert wanted.bundles == ({"CPU": 2.0, "GPU": 1.0},) * 2 + ({"CPU": 1.0},)
    assert wanted.worker_bundle == wanted.learner_bundle == (0, 1)
    assert wanted.gpus_per_worker == wanted.gpus_per_learner == 0.5


def test_a_cluster_that_is_large_enough_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    supply(monkeypatch, {"CPU": 2.0}, {"CPU": 1.0})
    require_supply(demand(config()))


def test_what_is_short_is_named_before_ray_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    supply(monkeypatch, {"CPU": 2.0})
    with pytest.raises(ClusterError, match="needs 3 CPUs and the Ray cluster has 2"):
        require_supply(demand(config()))


def test_enough_in_all_but_no_node_that_holds_a_bundle_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    supply(monkeypatch, {"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0, "GPU": 3.0})
    wanted = demand(config("cluster.device=gpu", "rollout.engine.tensor_parallel=4"))
    with pytest.raises(ClusterError, match="no node can hold bundle 0"):
        require_supply(wanted)
