"""Forming torch's process group without a door to the network."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import torch.distributed


def join(backend: str, timeout: timedelta) -> None:
    """Join the group of RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; collective over all ranks.

    A process that is in a group stays in it. Rank 0 keeps the group's store at MASTER_ADDR alone:
    torch's own listens on every address of the machine, and lets whoever connects read and write
    it. DeepSpeed adopts a group that exists.
    """
    if torch.distributed.is_initialized():
        return
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    listener = socket.create_server((address, port)).detach() if rank == 0 else None
    store = torch.distributed.TCPStore(
        address, port, world, rank == 0, timeout, master_listen_fd=listener
    )
    torch.distributed.init_process_group(
        backend, store=store, rank=rank, world_size=world, timeout=timeout
    )
