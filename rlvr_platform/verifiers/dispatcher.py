"""The thread that owns the worker processes: feeds them, times them, replaces them.

It consumes tasks and answers; it waits for the first of new tasks, answers, news of the fork
server, and the earliest deadline. All of its state belongs to its thread; `put` is the only door.
`Waiting` decides whose turn it is and when an item makes way.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import RlvrError, VerifierError
from rlvr_platform.types import Outcome
from rlvr_platform.verifiers.inbox import Inbox
from rlvr_platform.verifiers.processes import ForkServerProcess, OwnMemory, Worker
from rlvr_platform.verifiers.tasks import Task
from rlvr_platform.verifiers.waiting import Waiting

_DEATHS_PER_TASK = 2
"""A death may come from outside (a kill, the memory of the machine), hence one retry."""
_PROCESSES_PER_WORKER = 2
"""One at work, and one that takes its place at once or judges a slow item beside it."""
_OFF_CPU = 3.0
"""Times its patience that an item without a processor may take longer: it may not be at fault."""
_FORK_DEADLINE_S = 20.0
_SERVER_STARTS = 3
"""Tries to replace a fork server that was killed."""
_FAILED_ROUNDS = 3
"""Times its number of processes that the pool tries to start one, each ending at once."""
_TICK_S = 0.001
"""Resolution of a selector's timeouts."""


class Dispatcher:
    """Gives every task that `put` accepts exactly one delivery, or a failure when it ends."""

    def __init__(self, config: VerifierConfig, factory: str) -> None:
        self._config, self._factory = config, factory
        self._inbox = Inbox()
        self._closing = threading.Event()
        self._started: Future[None] = Future()
        self._processes = _PROCESSES_PER_WORKER * config.pool.workers
        self._waiting = Waiting(config.pool.deadline_s)
        self._failed_starts = 0
        self._forking: deque[tuple[socket.socket, float]] = deque()
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
            for task in [*held, *self._waiting.take_all(), *self._inbox.close(reason)]:
                task.fail(reason)

    def _attach(self) -> None:
        self._selector.register(self._server.control, selectors.EVENT_READ)
        self._selector.register(self._inbox.woken, selectors.EVENT_READ)

    def _detach(self) -> None:
        for channel, _ in self._forking:
            channel.close()
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        self._forking.clear()
        self._selector.close()

    def _turn(self) -> None:
        try:
            self._top_up()
            self._receive()
            self._expire()
            self._retire()
            self._feed()
        except (ConnectionError, TimeoutError):
            self._replace_server()

    def _receive(self) -> None:
        for key, events in self._selector.select(self._patience()):
            if key.fileobj is self._inbox.woken:
                self._waiting.add(self._inbox.take())
            elif key.fileobj is self._server.control:
                self._hear(self._server.receive())
            elif key.data in self._workers:
                self._serve(self._workers[key.data], events)

    def _patience(self) -> float | None:
        """Seconds until the first deadline; None when nothing is under way."""
        limits = [self._limit(worker) for worker in self._workers.values() if worker.tasks]
        limits += [began + _FORK_DEADLINE_S for began in self._starts()]
        return max(0.0, min(limits) - time.monotonic()) if limits else None

    def _starts(self) -> list[float]:
        """When each worker that is not ready yet was asked for, or forked."""
        forked = [worker.since for worker in self._workers.values() if not worker.ready]
        return [asked for _, asked in self._forking] + forked

    def _limit(self, worker: Worker) -> float:
        """When its first task has had its time: the whole of it, unless it keeps others waiting."""
        task = worker.tasks[0]
        allowed = self._config.pool.deadline_s - task.spent
        patience = self._waiting.patience_s(task, followed=len(worker.tasks) > 1)
        patience += min(worker.off_cpu_s, _OFF_CPU * patience)
        return worker.since + min(allowed, patience)

    def _hear(self, message: dict[str, Any]) -> None:
        if "forked" in message:
            self._welcome(message["forked"])
        elif message["exited"] in self._workers:
            self._bury(self._workers[message["exited"]], message["reason"])

    def _welcome(self, pid: int) -> None:
        channel, _ = self._forking.popleft()
        self._workers[pid] = worker = Worker(pid, channel)
        with contextlib.suppress(FileNotFoundError):  # It ended at once.
            worker.memory = OwnMemory(pid)
        self._selector.register(channel, selectors.EVENT_READ, pid)

    def _serve(self, worker: Worker, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush(worker)
        if events & selectors.EVENT_READ:
            self._collect(worker)

    def _flush(self, worker: Worker) -> None:
        events = selectors.EVENT_READ | (0 if worker.flush() else selectors.EVENT_WRITE)
        if events != self._selector.get_key(worker.channel).events:
            self._selector.modify(worker.channel, events, worker.pid)

    def _collect(self, worker: Worker) -> bool:
        """Deliver what the worker has answered; True when there was anything."""
        before, ready = worker.judged, worker.ready
        self._read(worker)
        if worker.ready and not ready:
            # To the end: those that have been ready for longest are the active ones.
            self._workers[worker.pid] = self._workers.pop(worker.pid)
        if worker.judged > before:
            worker.begin()
            worker.retiring |= self._used_up(worker)
        if worker.hung_up:
            self._cut_off(worker)
        return worker.judged > before

    def _read(self, worker: Worker) -> None:
        # A verifier that writes into the channel of its own process forges or garbles answers.
        with _faults_of(worker):
            for answer in () if worker.fault else worker.answers():
                self._accept(worker, answer)
        if worker.ready:
            self._failed_starts = 0

    def _cut_off(self, worker: Worker) -> None:
        """A live worker without a channel is of no use; its end is reported in any case."""
        with contextlib.suppress(KeyError):  # Done before.
            self._selector.unregister(worker.channel)
        self._server.kill(worker.pid)

    def _accept(self, worker: Worker, answer: Sequence[Any]) -> None:
        """Deliver, unless earlier items may have taken the memory that this one missed.

        It is tried again then. Retries end, since a new process's first item has no such excuse.
        """
        task = worker.tasks[0]
        outcome, extracted, rule, seconds, cpu_s, score = answer
        # The least patience under which it would have ended: see `_limit`.
        needed_s = max(float(cpu_s), float(seconds) / (1 + _OFF_CPU))
        if worker.judged and outcome == Outcome.ERROR and rule.startswith(MemoryError.__name__):
            worker.retiring = True
            task.spent += seconds
            self._waiting.give_back([task])
        else:
            task.deliver(outcome, extracted, rule, seconds, score)
            self._waiting.judged(task, needed_s)
        worker.tasks.popleft()
        worker.judged += 1

    def _used_up(self, worker: Worker) -> bool:
        pool = self._config.pool
        grown = worker.memory.growth_mib() if worker.memory else 0.0
        return worker.judged >= pool.recycle_after or grown > pool.recycle_growth_mib

    def _retire(self) -> None:
        """End the used-up workers that are done; their replacements run already."""
        for worker in list(self._workers.values()):
            if worker.retiring and not worker.tasks:
                self._server.kill(worker.pid)
                self._drop(worker)

    def _expire(self) -> None:
        now = time.monotonic()
        if any(began + _FORK_DEADLINE_S <= now for began in self._starts()):
            raise TimeoutError("the fork server does not answer")
        for worker in list(self._workers.values()):
            # Read once more: this thread may have been held up while the answer lay there.
            if self._late(worker, now) and not self._collect(worker):
                worker.look()
                if self._late(worker, now + _TICK_S):
                    self._give_up(worker, now)

    def _late(self, worker: Worker, now: float) -> bool:
        return bool(worker.tasks) and self._limit(worker) <= now

    def _give_up(self, worker: Worker, now: float) -> None:
        self._server.kill(worker.pid)
        self._drop(worker)
        task, deadline_s = worker.tasks.popleft(), self._config.pool.deadline_s
        self._waiting.give_back(worker.tasks)
        seconds = task.spent + now - worker.since
        if seconds < deadline_s and not task.slow:
            self._waiting.make_way(task, seconds)
        else:
            self._waiting.timed_out(task)
            task.deliver(Outcome.TIMEOUT, "", f"no verdict within {deadline_s:g} s", seconds)

    def _bury(self, worker: Worker, reason: str) -> None:
        self._read(worker)
        self._drop(worker)
        self._requeue(worker, worker.fault or reason)
        self._mourn(not worker.ready, reason)

    def _mourn(self, unready: int, reason: str) -> None:
        """Raise VerifierError when only processes that never came to work have ended lately."""
        self._failed_starts += unready
        if self._failed_starts >= _FAILED_ROUNDS * self._processes:
            raise VerifierError(
                f"{self._failed_starts} processes in a row ended before any work: {reason}",
                fix="see whether the limits on processes and memory leave room for them",
            )

    def _drop(self, worker: Worker) -> None:
        del self._workers[worker.pid]
        with contextlib.suppress(KeyError):  # Those that were cut off.
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
        self._waiting.give_back(worker.tasks)

    def _feed(self) -> None:
        if self._waiting:
            self._feed_active()
            self._feed_spare()

    def _feed_active(self) -> None:
        """To the workers ready for longest; nothing queues behind a task that made way."""
        able = (w for w in self._workers.values() if w.able and not w.slowed)
        active = list(islice(able, self._config.pool.workers))
        # Level by level, so that few tasks spread over all workers.
        for level in range(self._waiting.at_hand):
            for worker in active:
                if self._takes(worker, level) and (task := self._next()):
                    worker.assign(task)
        for worker in active:
            self._flush(worker)

    def _takes(self, worker: Worker, level: int) -> bool:
        left = self._config.pool.recycle_after - worker.judged
        return len(worker.tasks) == level < max(left, 1) and not worker.slowed

    def _next(self) -> Task | None:
        """Tasks that made way leave enough processes to those that did not."""
        room = sum(w.slowed for w in self._workers.values()) < self._config.pool.workers
        return self._waiting.take() or (self._waiting.take_second() if room else None)

    def _feed_spare(self) -> None:
        """Slow tasks, to idle workers: enough others remain for those that are not slow."""
        room = self._config.pool.workers - sum(w.slowed for w in self._workers.values())
        idle = [w for w in self._workers.values() if w.able and not w.tasks]
        for worker in idle[: max(0, room)]:
            if task := self._waiting.take_slow():
                worker.assign(task)
                self._flush(worker)

    def _top_up(self) -> None:
        """Twice `workers` processes: the others are spare, or busy with slow tasks."""
        present = sum(not w.retiring for w in self._workers.values()) + len(self._forking)
        for _ in range(self._processes - present):
            self._forking.append((self._server.fork(), time.monotonic()))

    def _replace_server(self) -> None:
        """The fork server is gone, and its workers with it."""
        workers, unready = list(self._workers.values()), len(self._starts())
        for worker in workers:
            self._read(worker)
        self._detach()
        self._server.stop()
        for worker in workers:
            self._requeue(worker, "the fork server died")
        self._mourn(unready, "the fork server died")
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
