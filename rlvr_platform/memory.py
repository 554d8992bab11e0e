"""Peak memory of processes, from the kernel's own high-water mark."""

from __future__ import annotations

import os
from pathlib import Path


def peak_memory(pid: int | None = None) -> int:
    """Largest resident set of a process since its start, shared pages included. Bytes."""
    status = Path(f"/proc/{pid or os.getpid()}/status").read_text(encoding="ascii")
    line = next(row for row in status.splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def children_peak_memory(pid: int | None = None) -> int:
    """Sum of `peak_memory` over all living descendants of a process. Bytes."""
    import psutil

    total = 0
    for child in psutil.Process(pid).children(recursive=True):
        try:
            total += peak_memory(child.pid)
        except (FileNotFoundError, ProcessLookupError, StopIteration):
            continue  # ended meanwhile, or a zombie without memory
    return total
