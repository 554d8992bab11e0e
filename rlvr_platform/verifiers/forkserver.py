"""The fork server: a process with one thread that loads the verifier once and forks workers.

A fork takes milliseconds and shares the loaded verifier, so replacing a killed worker costs
next to nothing, and the process that holds the pool, which has threads, is never forked.

The control socket carries packets. In: `fork` with the worker's channel attached, `kill PID`.
Out, as JSON: {"ready": true} or {"failed": reason} once; then {"forked": PID} for each `fork`, in
order, and {"exited": PID, "reason": text} for each worker that ended. A worker that is ready for
items says so by an empty line on its channel.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from rlvr_platform.config.verifier import AnyVerifier, VerifierConfig
from rlvr_platform.verifiers import worker
from rlvr_platform.verifiers.base import Verifier

_MIB = 1 << 20
_SMALLEST_WORKING_SPACE_MIB = 64
_PR_SET_CHILD_SUBREAPER = 36


class ForkServer:
    """Owns the worker processes: forks, kills and reaps them."""

    def __init__(self, control: socket.socket, verifier: Verifier, memory_mib: int) -> None:
        self._control = control
        self._verifier = verifier
        self._confinement = worker.Confinement(os.getpid(), memory_mib * _MIB)
        self._workers: set[int] = set()
        self._woken, self._wake = socket.socketpair()

    def run(self) -> None:
        """Serve until the control socket closes or SIGTERM arrives; leaves no process behind."""
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wake.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        try:
            while self._step():
                pass
        finally:
            self._workers.clear()
            while self._kill_strays():
                os.waitpid(-1, 0)

    def _step(self) -> bool:
        readable, _, _ = select.select([self._control, self._woken], [], [])
        if self._woken in readable:
            if signal.SIGTERM in self._woken.recv(4096):
                return False
            self._reap()
        return self._control not in readable or self._obey()

    def _obey(self) -> bool:
        message, channels, _, _ = socket.recv_fds(self._control, 64, 1)
        command, _, argument = message.partition(b" ")
        if command == b"fork":
            self._fork(socket.socket(fileno=channels[0]))
        elif command == b"kill" and int(argument) in self._workers:
            _kill_group(int(argument))
        return bool(message)

    def _fork(self, channel: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_worker(channel)
        channel.close()
        self._workers.add(pid)
        self._tell({"forked": pid})

    def _become_worker(self, channel: socket.socket) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            for inherited in (self._control, self._woken, self._wake):
                inherited.close()
            self._confinement.apply()
            channel.sendall(b"\n")
            worker.serve(channel, self._verifier)
            code = 0
        finally:
            os._exit(code)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            # WNOWAIT keeps the process id taken until its group is gone too.
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            while ended := os.waitid(os.P_ALL, 0, options):
                _kill_group(ended.si_pid)
                _, status = os.waitpid(ended.si_pid, 0)
                if ended.si_pid in self._workers:
                    self._workers.remove(ended.si_pid)
                    self._tell({"exited": ended.si_pid, "reason": _reason(status)})
                self._kill_strays()

    def _kill_strays(self) -> int:
        """Kill children that are no workers; returns how many there were.

        What a worker leaves behind becomes this process's child, even from another session.
        """
        strays = _children() - self._workers
        for pid in strays:
            _kill_group(pid)
        return len(strays)

    def _tell(self, message: dict[str, object]) -> None:
        # A pool that is gone also closed the control socket, which ends the loop.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(json.dumps(message).encode())


def _children() -> set[int]:
    """Process ids, ended ones included; none where the kernel does not list them."""
    try:
        return set(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()))
    except FileNotFoundError:
        return set()


def _kill_group(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _reason(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"the verifier process exited with status {code}"
    return f"the verifier process died of {signal.Signals(-code).name}"


def load_factory(name: str) -> Callable[[AnyVerifier], Verifier]:
    """The function that `module:function` names."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def check_memory(memory_mib: int) -> None:
    """Raise ValueError when the limit leaves no room above what loading has already taken."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    needed = pages * os.sysconf("SC_PAGE_SIZE") // _MIB + _SMALLEST_WORKING_SPACE_MIB
    if memory_mib < needed:
        raise ValueError(f"pool.memory_mib={memory_mib} is too small, use at least {needed}")


def main(control_fd: int, parent: int, config_json: str, factory: str) -> None:
    """Load the verifier, say whether that worked, then serve."""
    control = socket.socket(fileno=control_fd)
    try:
        config = VerifierConfig.model_validate_json(config_json)
        verifier = load_factory(factory)(config.use)
        check_memory(config.pool.memory_mib)
        server = ForkServer(control, verifier, config.pool.memory_mib)
    except BaseException as error:
        cause = "".join(traceback.format_exception_only(error)).strip()
        control.send(json.dumps({"failed": cause[-2000:]}).encode())
        return
    gc.collect()
    gc.freeze()  # Keeps the collector from writing to, and so copying, shared pages.
    worker.die_with_parent(signal.SIGTERM, parent)
    control.send(json.dumps({"ready": True}).encode())
    server.run()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
