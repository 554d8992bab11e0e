"""Reaching a Ray cluster, or starting one on this machine, and leaving it as it was."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import ray
from ray.exceptions import RayError

from actors.cluster_access import (
    LOOPBACK,
    answers_strangers,
    loopback_only,
    own_token,
    private_folder,
    protect_token_file,
)
from rlvr_platform.config.experiment import ExperimentConfig
from rlvr_platform.errors import ClusterError
from rlvr_platform.secrets import masked

LOCAL_ENVIRONMENT = {
    # By default Ray's workers yield to every other process; here they are the main job.
    "RAY_worker_niceness": "0",
    # Ranks and engines on one machine talk over loopback, not through the network card.
    "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_HOST_IP": LOOPBACK,
}
"""What the processes of a Ray that is started here inherit, unless the user has set it."""

NO_TOKEN = (
    "warning: this Ray has no token authentication: whoever reaches its ports can run code as you "
    "(docs/security.md)"
)


@contextmanager
def ray_cluster(config: ExperimentConfig, cpus: int) -> Iterator[str]:
    """Join the cluster of RAY_ADDRESS (also set inside a submitted job), or start a local Ray.

    A local Ray gets at least `cpus` logical CPUs, so that a laptop can hold every actor. It has
    no dashboard, listens on loopback only, and asks for a token. Yields lines that say where the
    run is and what leaves Ray open to others. Raises ClusterError.
    """
    address = os.environ.get("RAY_ADDRESS")
    with nullcontext() if address else own_token():
        lines = [protect_token_file(), _join(address, config) if address else _start(config, cpus)]
        try:
            yield "\n".join(filter(None, [*lines, *_openings(local=not address)]))
        finally:
            ray.shutdown()


def _openings(local: bool) -> Iterator[str]:
    """What lets others than the user at this Ray, a line each."""
    if local and (where := ray.util.get_node_ip_address()) != LOOPBACK:
        yield f"warning: the local Ray listens on {where}, not on loopback only"
    if answers_strangers(ray.get_runtime_context().gcs_address):
        yield NO_TOKEN


def _join(address: str, config: ExperimentConfig) -> str:
    try:
        _require_answer(address, config.cluster.connect_timeout_s)
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise ClusterError(
            f"cannot join the Ray cluster at {masked(address)}: {error}",
            "a running Ray with the same Ray and Python versions, and its token if it uses one",
            "check `ray status`, RAY_ADDRESS and RAY_AUTH_MODE; unset RAY_ADDRESS to run locally",
        ) from None
    return f"joined the Ray cluster at {masked(address)}"


def _require_answer(address: str, timeout_s: float) -> None:
    """Raise OSError when nobody listens at HOST:PORT: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()


def _start(config: ExperimentConfig, cpus: int) -> str:
    cluster = config.cluster
    folder = private_folder(cluster.temp_dir)
    # The engine's sockets lie there too: whoever opens them can speak for the platform.
    for name, value in {**LOCAL_ENVIRONMENT, "VLLM_RPC_BASE_PATH": str(folder.parent)}.items():
        os.environ.setdefault(name, value)
    try:
        with loopback_only():
            ray.init(
                address="local",
                num_cpus=max(cpus, os.cpu_count() or 1),
                object_store_memory=int(cluster.object_store_gib * 2**30),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.WARNING,
                _temp_dir=str(folder),
            )
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        raise ClusterError(
            f"cannot start a local Ray: {error}",
            "room in shared memory for cluster.object_store_gib, and a writable temporary folder",
            "lower cluster.object_store_gib, or set cluster.temp_dir (a short path)",
        ) from None
    return f"started a local Ray; its logs: {_session_logs()}"


def _session_logs() -> str:
    from ray._private.worker import _global_node

    return f"{_global_node.get_session_dir_path()}/logs" if _global_node else "unknown"


def gpu_names() -> list[str]:
    """Accelerator types of the cluster, for the manifest."""
    prefix = "accelerator_type:"
    return sorted(k.removeprefix(prefix) for k in ray.cluster_resources() if k.startswith(prefix))
