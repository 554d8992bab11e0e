"""The pool of killable verifier processes, as a plain object."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.errors import VerifierError
from rlvr_platform.types import Verdict
from rlvr_platform.verifiers.dispatcher import Dispatcher
from rlvr_platform.verifiers.tasks import GradeItem, Submission

__all__ = ["Backlog", "GradeItem", "VerifierPool"]

_MIB = 1 << 20
_BUILD_VERIFIER = "rlvr_platform.verifiers.registry:build_verifier"


class Backlog:
    """Bytes that wait for a verdict. Who comes while they reach the limit has to wait."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._changed = threading.Condition()

    def enter(self, size: int) -> None:
        """Wait for room, then take `size` bytes: more than the room if need be."""
        with self._changed:
            self._changed.wait_for(lambda: self._held < self._limit)
            self._held += size

    def leave(self, size: int) -> None:
        """Give `size` bytes back."""
        with self._changed:
            self._held -= size
            self._changed.notify_all()


class VerifierPool:
    """Grades completions in processes that can be killed.

    Each item has `config.pool.deadline_s` seconds from the moment a worker starts on it; past
    that the worker is killed and the item's verdict is `timeout`. An item over which a worker
    dies is tried once more within the same deadline, then its verdict is `error`. Other items
    never suffer: one that is far slower than most makes way for those that wait and is started
    again after them, the third time beside them and with its whole deadline. Verdicts come within
    the deadline plus a second of the last start. `workers` processes judge; as many more stand by
    to replace them at once or judge slow items. They are replaced between two items after
    `recycle_after` verdicts or `recycle_growth_mib` of growth.

    Verifiers must be pure: an item may be judged more than once.

    What verifiers print is discarded. `factory` names a `module:function` that builds the
    verifier from `config.use`, called once, in a process that must stay free of threads.

    Raises ConfigError when the verifier cannot be loaded.
    """

    def __init__(self, config: VerifierConfig, factory: str = _BUILD_VERIFIER) -> None:
        self.config = config
        dispatcher = Dispatcher(config, factory)
        dispatcher.start()
        self._dispatcher = dispatcher
        self._backlog = Backlog(config.pool.queue_mib * _MIB)
        # Also runs at interpreter exit, and when the pool is collected unclosed.
        self._finalizer = weakref.finalize(self, dispatcher.stop)

    def submit(self, items: Sequence[GradeItem]) -> Future[list[Verdict]]:
        """Grade in the background; the future's verdicts are in the order of `items`.

        Callable from any thread but not from a future's callback: it waits while earlier items
        hold `config.pool.queue_mib`. The future raises VerifierError when the pool is closed or
        broken before all verdicts are in.
        """
        submission = Submission(items, self.config)
        backlog, size = self._backlog, sum(len(task.payload) for task in submission.tasks)
        backlog.enter(size)
        submission.future.add_done_callback(lambda _: backlog.leave(size))
        try:
            self._dispatcher.put(submission.tasks)
        except VerifierError as error:
            submission.fail(error)
            raise
        return submission.future

    def grade(self, items: Sequence[GradeItem]) -> list[Verdict]:
        """Grade and wait."""
        return self.submit(items).result()

    def close(self) -> None:
        """End all processes; futures still open raise VerifierError. May be called twice."""
        self._finalizer()

    def __enter__(self) -> VerifierPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
