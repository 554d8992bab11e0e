"""The pool of killable verifier processes, as a plain object."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.types import Verdict
from rlvr_platform.verifiers.dispatcher import Dispatcher
from rlvr_platform.verifiers.tasks import GradeItem, Submission

__all__ = ["GradeItem", "VerifierPool"]

_BUILD_VERIFIER = "rlvr_platform.verifiers.base:build_verifier"


class VerifierPool:
    """Grades completions in processes that can be killed.

    Each item has `config.pool.deadline_s` seconds from the moment a worker starts on it; past
    that the worker is killed and the item's verdict is `timeout`. An item over which a worker
    dies is tried once more within the same deadline, then its verdict is `error`. Other items
    never suffer. Verdicts come within the deadline plus a second of an item's start; `submit`
    never blocks, so callers bound what they have in flight.

    What verifiers print is discarded. `factory` names a `module:function` that builds the
    verifier from `config.use`, called once, in a process that must stay free of threads.

    Raises ConfigError when the verifier cannot be loaded.
    """

    def __init__(self, config: VerifierConfig, factory: str = _BUILD_VERIFIER) -> None:
        self.config = config
        dispatcher = Dispatcher(config, factory)
        dispatcher.start()
        self._dispatcher = dispatcher
        # Also runs at interpreter exit, and when the pool is collected unclosed.
        self._finalizer = weakref.finalize(self, dispatcher.stop)

    def submit(self, items: Sequence[GradeItem]) -> Future[list[Verdict]]:
        """Grade in the background; the future's verdicts are in the order of `items`.

        Callable from any thread. The future raises VerifierError when the pool is closed or
        broken before all verdicts are in.
        """
        submission = Submission(items, self.config)
        self._dispatcher.put(submission.tasks)
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
