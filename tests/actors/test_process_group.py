import multiprocessing
import os
import socket
from datetime import timedelta
from pathlib import Path

SPAWN = multiprocessing.get_context("spawn")


def _listening_at(port: int) -> list[str]:
    tables = [Path("/proc/net", name).read_text() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()]
    ends = [line[1].split(":") for line in lines if len(line) > 3 and line[3] == "0A"]
    return [address for address, number in ends if int(number, 16) == port]


def _member(rank: int, port: int, answers) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch

    from actors.process_group import join

    join("gloo", timedelta(seconds=30))
    total = torch.tensor([float(rank + 1)])
    torch.distributed.all_reduce(total)
    answers.put((rank, total.item(), _listening_at(port)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_ranks_meet_at_an_address_of_their_own_only() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    answers = SPAWN.Queue()
    members = [SPAWN.Process(target=_member, args=(rank, port, answers)) for rank in range(2)]
    for member in members:
        member.start()
    found = [answers.get(timeout=90) for _ in members]
    for member in members:
        member.join(30)
    assert [member.exitcode for member in members] == [0, 0]
    assert sorted((rank, total) for rank, total, _ in found) == [(0, 3.0), (1, 3.0)]
    assert all(addresses == ["0100007F"] for _, _, addresses in found)
