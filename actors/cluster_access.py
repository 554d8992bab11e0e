"""Who can reach Ray: its token, the addresses it listens on, and the folder of its sockets."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from ray._common.utils import get_default_system_temp_dir
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from rlvr_platform.errors import ClusterError

LOOPBACK = "127.0.0.1"
ANSWER_S = 5.0
"""Deadline of a question to Ray's control service."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TOKEN_SETUP = "ray._private.authentication.authentication_token_setup"


@contextmanager
def own_token() -> Iterator[None]:
    """Inside, a Ray that is started has a random token of its own, known to its processes only.

    What the user has set wins: RAY_AUTH_MODE=disabled, RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH.
    Ray would otherwise take, or write world-readable, the one token of all the user's clusters.
    """
    before = dict(os.environ)
    # Ray itself turns the token on when the mode is unset, and says so in three lines.
    logging.getLogger(_TOKEN_SETUP).setLevel(logging.ERROR)
    if not (os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    AuthenticationTokenLoader.instance().reset_cache()
    try:
        yield
    finally:
        for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]
        AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def loopback_only() -> Iterator[None]:
    """Inside, a Ray that is started takes 127.0.0.1 as its node's address and listens there only.

    Ray's own way for systems on which it forms no clusters; it turns a loopback address that is
    passed to `ray.init` into that of the network card, and then listens on all of them.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def private_folder(chosen: str | None) -> Path:
    """A folder for Ray inside one that only this user can enter: Ray makes its own writable to all.

    Below `chosen`, else below the system's temporary folder. Raises ClusterError when it cannot
    be made, or belongs to somebody else.
    """
    base = Path(chosen).expanduser().absolute() if chosen else Path(get_default_system_temp_dir())
    folder = base / f"rlvr-ray-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{folder} belongs to somebody else")
        folder.chmod(0o700)
    except OSError as error:
        raise ClusterError(
            f"cannot make a private folder for Ray: {error}",
            f"{folder} as a folder of yours",
            "set cluster.temp_dir to a folder you may write",
        ) from None
    return folder / "ray"


def protect_token_file() -> str:
    """Take the rights of group and others off the user's token file; a line about it, or "".

    A file of somebody else (a secret that Kubernetes mounts) stays as it is, and is named.
    """
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return ""
    if not mode & _OTHERS:
        return ""
    try:
        path.chmod(mode & ~_OTHERS)
    except OSError:
        return f"warning: others can read the Ray token {path} (mode {mode:o}), and it is not yours"
    return f"the Ray token {path} had mode {mode:o}: others could read it; now {mode & ~_OTHERS:o}"


def answers_strangers(address: str) -> bool:
    """Whether the Ray at `address` (HOST:PORT of its GCS) answers somebody without a token."""
    channel = grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
    service = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
    try:
        service.CheckAlive(gcs_service_pb2.CheckAliveRequest(), timeout=ANSWER_S)
    except grpc.RpcError:
        return False
    finally:
        channel.close()
    return True
