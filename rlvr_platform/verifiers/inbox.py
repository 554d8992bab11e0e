"""The door of the pool's thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence

from rlvr_platform.verifiers.tasks import Task


class Inbox:
    """Tasks from any thread, with a socket that wakes a selector."""

    def __init__(self) -> None:
        self.woken, self._wake = socket.socketpair()
        self.woken.setblocking(False)
        self._wake.setblocking(False)
        self._lock = threading.Lock()
        self._tasks: list[Task] = []
        self._closed_by: Exception | None = None

    def put(self, tasks: Sequence[Task]) -> None:
        """Raises why the inbox is closed, if it is."""
        with self._lock:
            if self._closed_by:
                raise self._closed_by
            if not self._tasks:  # Else `woken` is readable already, or about to be taken from.
                self.wake()
            self._tasks.extend(tasks)

    def take(self) -> list[Task]:
        """All tasks put since the last call."""
        with contextlib.suppress(BlockingIOError):
            self.woken.recv(4096)
        with self._lock:
            tasks, self._tasks = self._tasks, []
        return tasks

    def close(self, reason: Exception) -> list[Task]:
        """Refuse further tasks; returns those not taken."""
        with self._lock:
            self._closed_by = reason
            rest, self._tasks = self._tasks, []
            self.woken.close()
            self._wake.close()
        return rest

    def wake(self) -> None:
        """Make `woken` readable."""
        # A full socket holds a wake-up already; after `close` nobody waits.
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
