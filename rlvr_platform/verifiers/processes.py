"""The pool's side of the fork server: start it, ask it for workers, hear of their ends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import ConfigError, DeadlineError, VerifierError
from rlvr_platform.verifiers.tasks import Task

START_DEADLINE_S = 120.0
"""For loading the verifier: imports from a cold network disk take long."""
_REQUEST_DEADLINE_S = 20.0
_STOP_DEADLINE_S = 5.0
_CHANNEL_BYTES = 1 << 22
"""Send buffer of a channel, as far as the system allows: a long completion goes in few writes."""
_LONGEST_ANSWER = 1 << 20
_MIB = 1 << 20


class OwnMemory:
    """Memory that a process does not share with files: its heap and stacks (Linux)."""

    def __init__(self, pid: int) -> None:
        self._statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
        self._at_first = self._mib()

    def growth_mib(self) -> float:
        """MiB since this object was made; not positive once the process has ended."""
        return self._mib() - self._at_first

    def close(self) -> None:
        """May be called once."""
        os.close(self._statm)

    def _mib(self) -> float:
        try:
            _, resident, shared, *_ = os.pread(self._statm, 256, 0).split()
        except ProcessLookupError:
            return 0.0
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE") / _MIB


def cpu_seconds(pid: int) -> float:
    """Processor time of a process (Linux); 0 once it has ended, or where that cannot be known."""
    try:
        # The clock of a process, as clock_getcpuclockid(3) makes it.
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


@dataclass(eq=False, slots=True)
class Worker:
    """A worker's channel and what it is busy with. The first task is the one being judged."""

    pid: int
    channel: socket.socket
    memory: OwnMemory | None = None
    """None when it ended at once."""
    tasks: deque[Task] = field(default_factory=deque)
    since: float = field(default_factory=time.monotonic)
    """When the first task, or the process itself, started; on the monotonic clock."""
    ready: bool = False
    """It has said that it waits for tasks."""
    off_cpu_s: float = 0.0
    """Seconds without a processor since then, at the last look: it slept or was kept waiting."""
    unsent: bytearray = field(default_factory=bytearray)
    unread: bytes = b""
    hung_up: bool = False
    """The worker closed its end: it ended, or is about to."""
    fault: str = ""
    """Why nothing that comes from this worker can be trusted any more."""
    retiring: bool = False
    """It finishes what it has and gets nothing more."""
    judged: int = 0
    """Verdicts so far."""
    _cpu_before: float = 0.0
    """Processor time when the first task started."""

    @property
    def able(self) -> bool:
        """Whether it takes another task."""
        return self.ready and not (self.hung_up or self.retiring)

    @property
    def slowed(self) -> bool:
        """Whether it has a task that made way before, and may take long."""
        return bool(self.tasks) and self.tasks[-1].made_way > 0

    def assign(self, task: Task) -> None:
        """Queue a task for this worker; `flush` sends it."""
        if not self.tasks:
            self.begin()
        self.tasks.append(task)
        self.unsent += task.payload

    def begin(self) -> None:
        """Start timing the first task."""
        self.since, self.off_cpu_s = time.monotonic(), 0.0
        self._cpu_before = cpu_seconds(self.pid)

    def look(self) -> None:
        """Bring `off_cpu_s` up to date."""
        on_cpu_s = cpu_seconds(self.pid) - self._cpu_before
        self.off_cpu_s = max(0.0, time.monotonic() - self.since - on_cpu_s)

    def flush(self) -> bool:
        """Send what the channel takes now; True when nothing is left to send."""
        try:
            while self.unsent:
                del self.unsent[: self.channel.send(self.unsent)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            self.unsent.clear()  # The fork server will report the end.
        return not self.unsent

    def answers(self) -> Iterator[tuple[str, str, str, float, float, float | None]]:
        """Read what has arrived: outcome, extracted, rule, seconds, processor seconds and score.

        The iterator raises ValueError at what is no answer.
        """
        *lines, self.unread = (self.unread + self._arrived()).split(b"\n")
        for line in lines:
            if line:
                yield json.loads(line)
            self.ready = True
        if len(self.unread) > _LONGEST_ANSWER:
            raise ValueError("an answer without an end")

    def _arrived(self) -> bytes:
        arrived = b""
        try:
            # Bounded, since a verifier may write into the channel without end.
            while len(arrived) <= _LONGEST_ANSWER:
                chunk = self.channel.recv(1 << 16)
                if not chunk:
                    self.hung_up = True
                    break
                arrived += chunk
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.hung_up = True
        return arrived

    def close(self) -> None:
        """Let go of the channel: a worker that waits for items ends."""
        self.channel.close()
        if self.memory:
            self.memory.close()
            self.memory = None


class ForkServerProcess:
    """A running fork server."""

    def __init__(self, config: VerifierConfig, factory: str) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-P", "-m", "rlvr_platform.verifiers.forkserver"]
        arguments = [str(theirs.fileno()), str(os.getpid()), config.model_dump_json(), factory]
        self._process = subprocess.Popen(
            command + arguments,
            env=_environment(),
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        self._await_ready()

    def fork(self) -> socket.socket:
        """Ask for a worker, by its channel; its process id arrives with a `forked` message."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self.control, [b"fork"], [theirs.fileno()])
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHANNEL_BYTES)
        return ours

    def kill(self, pid: int) -> None:
        """Have the worker and its children killed."""
        self.control.send(b"kill %d" % pid)

    def receive(self) -> dict[str, Any]:
        """The next message. Raises ConnectionError when the server is gone."""
        message = self.control.recv(1 << 16)
        if not message:
            raise ConnectionResetError("the fork server closed its control socket")
        return json.loads(message)

    def stop(self) -> None:
        """End the server, and with it all workers."""
        self.control.close()
        try:
            self._process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _await_ready(self) -> None:
        self.control.settimeout(START_DEADLINE_S)
        try:
            answer = self.receive()
        except TimeoutError:
            self.stop()
            raise DeadlineError(
                f"the verifier did not load within {START_DEADLINE_S:.0f} s"
            ) from None
        except ConnectionError:
            self.stop()
            raise VerifierError(
                f"the verifier's fork server ended at once, exit code {self._process.returncode}",
                fix=f"see whether `{sys.executable} -c 'import rlvr_platform.types'` works",
            ) from None
        if "failed" in answer:
            self.stop()
            raise ConfigError(f"the verifier cannot be loaded: {answer['failed']}")
        self.control.settimeout(_REQUEST_DEADLINE_S)


def _environment() -> dict[str, str]:
    """The same import path; one thread, since a process with more must not be forked."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return {**os.environ, **threads, "PYTHONPATH": path}
