"""A run of a program: what it may use, waiting for it, and how it ended."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from rlvr_platform.errors import VerifierError

_MIB = 1 << 20
_KILL_DEADLINE_S = 5.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may use; see CodeVerifier for each."""

    cpu_s: int = 2
    wall_s: float = 3.0
    memory_mib: int = 1024
    file_mib: int = 16
    open_files: int = 64
    threads: int = 64


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    late: bool
    """It was killed at its wall-clock limit."""
    status: int
    """Exit status; 128 + N, or -N, when signal N ended it."""
    stdout: bytes
    stderr: bytes

    @property
    def reason(self) -> str:
        """What ended it, for messages: the last line of its traceback, or a signal."""
        if self.late:
            return "time limit"
        number = -self.status if self.status < 0 else self.status - 128
        if number > 0:
            name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
            return "CPU time limit, or killed" if name == "SIGKILL" else f"died of {name}"
        lines = self.stderr[-4096:].decode(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines and self.status else f"exit status {self.status}"


class Run:
    """A started program; ended by `wait` or `kill`, whichever comes first."""

    def __init__(
        self, process: subprocess.Popen[bytes], files: dict[str, int], limits: Limits, folder: str
    ) -> None:
        self._process, self._files, self._limits, self._folder = process, files, limits, folder
        self._started = time.monotonic()
        self._until = self._started + limits.wall_s

    def wait(self, *others: Run) -> Ended:
        """Wait for the end, at most until the wall-clock limit, then kill.

        The limit leaves out what this run and `others`, on which it waits, spent in line for a
        processor: a busy machine makes no program wrong.

        Raises VerifierError when the sandbox failed before the program began.
        """
        late = False
        while not late and not self._over(self._until - time.monotonic()):
            queued = sum(run.queued_s() for run in (self, *others))
            self._until = max(self._until, self._started + self._limits.wall_s + queued)
            late = self._until <= time.monotonic()
        try:
            self._end()
            stdout, stderr, began = (self._written(n) for n in ("stdout", "stderr", "began"))
        finally:
            self.kill()
        if not began:
            cause = stderr[-500:].decode(errors="replace").strip()
            raise VerifierError(f"the sandbox did not start: {cause or 'too slow'}")
        return Ended(late, self._process.returncode, stdout, stderr)

    def queued_s(self) -> float:
        """Seconds that its processes were able to run and had no processor; 0 where the kernel
        does not tell."""
        pids, queued = [self._process.pid], 0.0
        for pid in pids:
            with contextlib.suppress(OSError):
                queued += int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
            pids.extend(_children(pid))
        return queued

    def kill(self) -> None:
        """End it and let go of what it holds; may be called twice."""
        self._end()
        while self._files:
            os.close(self._files.popitem()[1])
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _over(self, patience: float) -> bool:
        # Popen.wait(timeout) looks again after up to 50 ms, longer than most programs run.
        descriptor = os.pidfd_open(self._process.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(max(0.0, patience) * 1000))
        finally:
            os.close(descriptor)

    def _end(self) -> None:
        if self._process.returncode is not None:
            return
        if self._folder:  # An unsafe run.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif not self._over(0.0):
            self._kill_namespace()
        self._process.wait(_KILL_DEADLINE_S)

    def _kill_namespace(self) -> None:
        """Kill bwrap and its child, the first process of the namespace, with which all end.

        A bwrap killed alone while it starts leaves a child that is not tied to it yet.
        """
        pid = self._process.pid
        os.kill(pid, signal.SIGSTOP)  # It can start no child between the look and the kill.
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        for child in _children(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.kill()

    def _written(self, name: str) -> bytes:
        descriptor = self._files[name]
        size = min(os.fstat(descriptor).st_size, self._limits.file_mib * _MIB)
        return os.pread(descriptor, size, 0)


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []
