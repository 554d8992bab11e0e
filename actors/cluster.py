"""Reaching a Ray cluster, or starting one on this machine, and leaving it as it was."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.exceptions import RayError

from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError


@contextmanager
def ray_cluster(config: ExperimentConfig, cpus: int) -> Iterator[str]:
    """Join the cluster of RAY_ADDRESS (also set inside a submitted job), or start a local Ray.

    A local Ray gets at least `cpus` logical CPUs, so that a laptop can hold every actor. Its
    dashboard is off. Yields a line that says where the run is. Raises ClusterError.
    """
    address = os.environ.get("RAY_ADDRESS")
    if address:
        _join(address, config)
        where = f"joined the Ray cluster at {address}"
    else:
        _start(config, cpus)
        where = f"started a local Ray; its logs: {_session_logs()}"
    try:
        yield where
    finally:
        ray.shutdown()


def _join(address: str, config: ExperimentConfig) -> None:
    try:
        _require_answer(address, config.cluster.connect_timeout_s)
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ClusterError(
            f"cannot join the Ray cluster at {address}: {error}",
            "a running Ray with the same Ray and Python versions, and its token if it uses one",
            "check `ray status`, RAY_ADDRESS and RAY_AUTH_MODE; unset RAY_ADDRESS to run locally",
        ) from None


def _require_answer(address: str, timeout_s: float) -> None:
    """Raise OSError when nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()


def _start(config: ExperimentConfig, cpus: int) -> None:
    cluster = config.cluster
    # By default Ray's workers yield to every other process; here they are the main job.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        ray.init(
            address="local",
            num_cpus=max(cpus, os.cpu_count() or 1),
            object_store_memory=int(cluster.object_store_gib * 2**30),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.WARNING,
            _temp_dir=cluster.temp_dir,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        raise ClusterError(
            f"cannot start a local Ray: {error}",
            "room in shared memory for cluster.object_store_gib, and a writable temporary folder",
            "lower cluster.object_store_gib, or set cluster.temp_dir",
        ) from None


def _session_logs() -> str:
    from ray._private.worker import _global_node

    return f"{_global_node.get_session_dir_path()}/logs" if _global_node else "unknown"


def gpu_names() -> list[str]:
    """Accelerator types of the cluster, for the manifest."""
    prefix = "accelerator_type:"
    return sorted(k.removeprefix(prefix) for k in ray.cluster_resources() if k.startswith(prefix))
