"""What each actor needs, whether the cluster has it, and where each actor goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError

Bundle = dict[str, float]


@dataclass(frozen=True, slots=True)
class Demand:
    """The bundles of a run, in placement order: rollout workers, learners, services.

    When colocated, learner rank i lives in rollout worker i's bundle and its GPU is halved.
    The services bundle holds verifier pool, replay buffer and allocator.
    """

    bundles: tuple[Bundle, ...]
    worker_bundle: tuple[int, ...]
    learner_bundle: tuple[int, ...]
    services_bundle: int
    gpus_per_worker: float
    gpus_per_learner: float

    def total(self, resource: str) -> float:
        return sum(bundle.get(resource, 0) for bundle in self.bundles)


def demand(config: ExperimentConfig) -> Demand:
    """What the configuration asks of the cluster. One CPU per actor and per service bundle."""
    workers, ranks = config.rollout.workers, config.learner.ranks
    gpu = config.cluster.device == "gpu"
    shared = config.cluster.colocate
    gpus_per_worker = float(config.rollout.engine.tensor_parallel) if gpu else 0.0
    worker: Bundle = {"CPU": 2.0 if shared else 1.0, "GPU": gpus_per_worker}
    learner: Bundle = {"CPU": 1.0, "GPU": 1.0 if gpu else 0.0}
    bundles = [worker] * workers + ([] if shared else [learner] * ranks) + [{"CPU": 1.0}]
    return Demand(
        bundles=tuple({k: v for k, v in bundle.items() if v} for bundle in bundles),
        worker_bundle=tuple(range(workers)),
        learner_bundle=tuple(range(ranks)) if shared else tuple(range(workers, workers + ranks)),
        services_bundle=len(bundles) - 1,
        gpus_per_worker=gpus_per_worker / 2 if shared else gpus_per_worker,
        gpus_per_learner=learner["GPU"] / 2 if shared else learner["GPU"],
    )


def require_supply(wanted: Demand) -> None:
    """Raise ClusterError naming what is short, before Ray is asked for a placement group.

    Ray itself waits for ever for a bundle that no node can hold.
    """
    supply = ray.cluster_resources()
    for resource in ("GPU", "CPU"):
        need, have = wanted.total(resource), supply.get(resource, 0.0)
        if need > have:
            raise ClusterError(
                f"the run needs {need:g} {resource}s and the Ray cluster has {have:g}",
                ", ".join(f"bundle {i}: {bundle}" for i, bundle in enumerate(wanted.bundles)),
                "lower rollout.workers or learner.ranks, or add nodes"
                + ("; ray start --num-cpus=N sets a node's count" if resource == "CPU" else ""),
            )
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for i, bundle in enumerate(wanted.bundles):
        if not any(all(node.get(k, 0) >= v for k, v in bundle.items()) for node in nodes):
            raise ClusterError(f"no node can hold bundle {i}, {bundle}", "a node that large")


class Placement:
    """A placement group that is there, and the options that put an actor into it."""

    def __init__(self, config: ExperimentConfig, wanted: Demand) -> None:
        """Raises ClusterError when the group is not ready in time."""
        self.demand = wanted
        cluster = config.cluster
        self._group: PlacementGroup = placement_group(
            list(wanted.bundles), strategy=cluster.strategy
        )
        if not self._group.wait(cluster.placement_timeout_s):
            self.remove()
            raise ClusterError(
                f"Ray did not place the run within {cluster.placement_timeout_s:g} s",
                f"free room for {list(wanted.bundles)}; available now: {ray.available_resources()}",
                "wait for other jobs to end (`ray status`), or raise cluster.placement_timeout_s",
            )

    def options(
        self, bundle: int, cpus: float = 1.0, gpus: float = 0.0, env: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Actor options for one bundle."""
        return {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "runtime_env": {"env_vars": env or {}},
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=bundle
            ),
        }

    def remove(self) -> None:
        """Give the room back; actors inside are killed."""
        remove_placement_group(self._group)
