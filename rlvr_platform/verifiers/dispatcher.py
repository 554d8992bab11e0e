"""The thread that owns the worker processes: feeds them, times them, replaces them.

It consumes tasks and answers; it waits for the first of new tasks, answers, news of the fork
server, and the earliest deadline. All of its state belongs to its thread; `put` is the only door.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import RlvrError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.processes import ForkServerProcess, OwnMemory, Worker
from rlvr_platform.verifiers.tasks import Task

_TASKS_PER_WORKER = 2
"""The one being judged and the next, so that no worker waits for this thread."""
_DEATHS_PER_TASK = 2
"""A death may come from outside (a kill, the memory of the machine), hence one retry."""
_FORK_DEADLINE_S = 20.0
_SLOW = 16.0
"""Times the mean: an item that takes longer makes way while others wait."""
_LEAST_PATIENCE_S = 0.05
"""Well above the cost of replacing a process, which making way takes."""
_PACE_WEIGHT, _PACE_LEAST = 1 / 256, 32
"""Of the newest verdict in the mean, and the verdicts before which nothing counts as slow."""
_SERVER_STARTS = 3
"""Tries to replace a fork server that was killed."""


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
            self._tasks.extend(tasks)
            self.wake()

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


class Pace:
    """How long items take, to tell the ones that hold up the others."""

    def __init__(self) -> None:
        self._mean_s, self._count = 0.0, 0

    def add(self, seconds: float) -> None:
        """Learn from a verdict."""
        self._count += 1
        self._mean_s += max(1 / self._count, _PACE_WEIGHT) * (seconds - self._mean_s)

    @property
    def patience_s(self) -> float:
        """Seconds after which an item is slow."""
        if self._count < _PACE_LEAST:
            return math.inf
        return max(_LEAST_PATIENCE_S, _SLOW * self._mean_s)


class Dispatcher:
    """Gives every task that `put` accepts exactly one delivery, or a failure when it ends."""

    def __init__(self, config: VerifierConfig, factory: str) -> None:
        self._config, self._factory = config, factory
        self._inbox = Inbox()
        self._closing = threading.Event()
        self._started: Future[None] = Future()
        self._queue: deque[Task] = deque()
        self._slow: deque[Task] = deque()
        self._pace = Pace()
        self._forking: deque[tuple[Worker, float]] = deque()
        self._workers: dict[int, Worker] = {}
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, name="verifier-pool", daemon=True)

    def start(self) -> None:
        """Return once workers can be forked. Raises what kept the verifier from loading."""
        self._thread.start()
        self._started.result()

    def put(self, tasks: Sequence[Task]) -> None:
        """Raises VerifierError after the end."""
        self._inbox.put(tasks)

    def stop(self) -> None:
        """End the thread and every process; open tasks fail."""
        self._closing.set()
        self._inbox.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        reason: Exception = VerifierError("the verifier pool was closed")
        try:
            self._server = ForkServerProcess(self._config, self._factory)
        except Exception as error:
            self._inbox.close(error)
            self._started.set_exception(error)
            return
        try:
            self._attach()
            self._started.set_result(None)
            while not self._closing.is_set():
                self._turn()
        except Exception as error:
            reason = error if isinstance(error, RlvrError) else _broken(error)
        self._end(reason)

    def _end(self, reason: Exception) -> None:
        held = [task for worker in self._workers.values() for task in worker.tasks]
        try:
            self._detach()
            self._server.stop()
        finally:
            for task in [*held, *self._queue, *self._slow, *self._inbox.close(reason)]:
                task.fail(reason)

    def _attach(self) -> None:
        self._selector.register(self._server.control, selectors.EVENT_READ)
        self._selector.register(self._inbox.woken, selectors.EVENT_READ)
        self._top_up()

    def _detach(self) -> None:
        for worker in [*self._workers.values(), *(worker for worker, _ in self._forking)]:
            worker.close()
        self._workers.clear()
        self._forking.clear()
        self._selector.close()

    def _turn(self) -> None:
        try:
            self._receive()
            self._expire()
            self._retire()
            self._feed()
        except (ConnectionError, TimeoutError):
            self._replace_server()

    def _receive(self) -> None:
        for key, events in self._selector.select(self._patience()):
            if key.fileobj is self._inbox.woken:
                self._queue.extend(self._inbox.take())
            elif key.fileobj is self._server.control:
                self._hear(self._server.receive())
            elif key.data in self._workers:
                self._serve(key.data, events)

    def _patience(self) -> float | None:
        """Seconds until the first deadline; None when nothing is under way."""
        limits = [self._limit(worker) for worker in self._workers.values() if worker.tasks]
        limits += [asked + _FORK_DEADLINE_S for _, asked in self._forking]
        return max(0.0, min(limits) - time.monotonic()) if limits else None

    def _limit(self, worker: Worker) -> float:
        """When its first task has had its time: the whole of it, unless it keeps others waiting."""
        task = worker.tasks[0]
        allowed = self._config.pool.deadline_s - task.spent
        if not task.postponed and (self._queue or len(worker.tasks) > 1):
            allowed = min(allowed, self._pace.patience_s)
        return worker.since + allowed

    def _hear(self, message: dict[str, Any]) -> None:
        if "forked" in message:
            worker, _ = self._forking.popleft()
            self._workers[message["forked"]] = worker
            with contextlib.suppress(FileNotFoundError):  # It ended at once.
                worker.memory = OwnMemory(message["forked"])
            self._selector.register(worker.channel, selectors.EVENT_READ, message["forked"])
        elif message["exited"] in self._workers:
            self._bury(message["exited"], message["reason"])

    def _serve(self, pid: int, events: int) -> None:
        worker = self._workers[pid]
        if events & selectors.EVENT_WRITE:
            self._flush(pid, worker)
        if events & selectors.EVENT_READ:
            self._collect(worker)
        if worker.hung_up:
            # A live worker without a channel is of no use; its end is reported in any case.
            self._selector.unregister(worker.channel)
            self._server.kill(pid)

    def _flush(self, pid: int, worker: Worker) -> None:
        events = selectors.EVENT_READ | (0 if worker.flush() else selectors.EVENT_WRITE)
        if events != self._selector.get_key(worker.channel).events:
            self._selector.modify(worker.channel, events, pid)

    def _collect(self, worker: Worker) -> bool:
        """Deliver what the worker has answered; True when there was anything."""
        before = worker.judged
        # A verifier that writes into the channel of its own process forges or garbles answers.
        with _faults_of(worker):
            for answer in () if worker.fault else worker.answers():
                self._accept(worker, answer)
        if worker.judged > before:
            worker.since = time.monotonic()
            worker.retiring |= self._used_up(worker)
        return worker.judged > before

    def _accept(self, worker: Worker, answer: Sequence[Any]) -> None:
        """Deliver, unless earlier items may have taken the memory that this one missed.

        It is tried again then. Retries end, since a new process's first item has no such excuse.
        """
        task = worker.tasks[0]
        outcome, _, rule, seconds, *_ = answer
        if worker.judged and outcome == Outcome.ERROR and rule.startswith(MemoryError.__name__):
            worker.retiring = True
            task.spent += seconds
            self._queue.appendleft(task)
        else:
            task.deliver(*answer)
            self._pace.add(seconds)
        worker.tasks.popleft()
        worker.judged += 1

    def _used_up(self, worker: Worker) -> bool:
        pool = self._config.pool
        grown = worker.memory.growth_mib() if worker.memory else 0.0
        return worker.judged >= pool.recycle_after or grown > pool.recycle_growth_mib

    def _retire(self) -> None:
        """End the used-up workers that are done; their replacements run already."""
        for pid, worker in list(self._workers.items()):
            if worker.retiring and not worker.tasks:
                self._server.kill(pid)
                self._drop(pid)

    def _expire(self) -> None:
        now = time.monotonic()
        if self._forking and self._forking[0][1] + _FORK_DEADLINE_S <= now:
            raise TimeoutError("the fork server does not answer")
        for pid, worker in list(self._workers.items()):
            late = worker.tasks and self._limit(worker) <= now
            # Read once more: this thread may have been held up while the answer lay there.
            if late and not self._collect(worker):
                self._give_up(pid, worker, now)

    def _give_up(self, pid: int, worker: Worker, now: float) -> None:
        self._server.kill(pid)
        self._drop(pid)
        task, deadline_s = worker.tasks.popleft(), self._config.pool.deadline_s
        self._queue.extendleft(reversed(worker.tasks))
        seconds = task.spent + now - worker.since
        if seconds < deadline_s:
            task.postponed = True
            self._slow.append(task)
        else:
            task.deliver(Outcome.TIMEOUT, "", f"no verdict within {deadline_s:g} s", seconds)

    def _bury(self, pid: int, reason: str) -> None:
        worker = self._workers[pid]
        self._collect(worker)
        self._drop(pid)
        self._requeue(worker, worker.fault or reason)

    def _drop(self, pid: int) -> None:
        worker = self._workers.pop(pid)
        with contextlib.suppress(KeyError):  # Those that hung up are not registered any more.
            self._selector.unregister(worker.channel)
        worker.close()

    def _requeue(self, worker: Worker, reason: str) -> None:
        """Of a dead worker's tasks the first is suspect; the others had not started."""
        if not worker.tasks:
            return
        suspect = worker.tasks[0]
        suspect.deaths += 1
        suspect.spent += time.monotonic() - worker.since
        if suspect.deaths == _DEATHS_PER_TASK:
            worker.tasks.popleft().deliver(Outcome.ERROR, "", f"{reason}, twice", suspect.spent)
        self._queue.extendleft(reversed(worker.tasks))

    def _feed(self) -> None:
        if not (self._queue or self._slow):
            return
        self._top_up()
        able = [(pid, worker) for pid, worker in self._workers.items() if worker.able]
        # Level by level, so that few tasks spread over all workers.
        for level in range(_TASKS_PER_WORKER):
            for pid, worker in able:
                if len(worker.tasks) == level and (task := self._next_for(worker)):
                    worker.assign(task)
                    self._flush(pid, worker)

    def _next_for(self, worker: Worker) -> Task | None:
        """Nothing queues behind a slow task; slow ones come last, to as many workers again."""
        if self._queue and not worker.slowed:
            return self._queue.popleft()
        slowed = sum(worker.slowed for worker in self._workers.values())
        if self._slow and not worker.tasks and slowed < self._config.pool.workers:
            return self._slow.popleft()
        return None

    def _top_up(self) -> None:
        ready = sum(not (w.retiring or w.slowed) for w in self._workers.values())
        for _ in range(self._config.pool.workers - ready - len(self._forking)):
            self._forking.append((self._server.fork(), time.monotonic()))

    def _replace_server(self) -> None:
        """The fork server is gone, and its workers with it."""
        workers = list(self._workers.values())
        for worker in workers:
            self._collect(worker)
        self._detach()
        self._server.stop()
        for worker in workers:
            self._requeue(worker, "the fork server died")
        self._server = self._another_server()
        self._selector = selectors.DefaultSelector()
        self._attach()

    def _another_server(self) -> ForkServerProcess:
        for _ in range(_SERVER_STARTS - 1):
            # Whatever killed the last one may kill the next one while it loads.
            with contextlib.suppress(VerifierError):
                return ForkServerProcess(self._config, self._factory)
        return ForkServerProcess(self._config, self._factory)


@contextlib.contextmanager
def _faults_of(worker: Worker) -> Iterator[None]:
    """Turn answers that make no sense into the worker's fault and end."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        worker.fault = "the verifier wrote into the answer channel of its process"
        worker.hung_up = True


def _broken(error: Exception) -> VerifierError:
    return VerifierError(
        f"the verifier pool broke: {type(error).__name__}: {error}", fix="create a new pool"
    )
