"""The tasks that wait for a worker: a multilevel feedback queue (Corbató 1962)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from rlvr_platform.verifiers.pace import Pace
from rlvr_platform.verifiers.tasks import Task

_SECOND_TRY = 4.0
"""Times the first, and at least the seconds below: nothing quick is started three times."""
_SECOND_TRY_S = 0.1
_SOUNDED = 32
"""Of so many tasks that make way, one is tried again at once: what it needs, the others may need
too."""


class Waiting:
    """Ordinary tasks, then those that made way once, then the slow ones, which did so twice.

    A task that made way starts anew. The second try is short too, so that who made way by mistake
    does not wait for the deadlines of those who did so rightly.
    """

    def __init__(self, deadline_s: float) -> None:
        self._pace = Pace(deadline_s)
        self._made_way = 0
        self._levels: tuple[deque[Task], ...] = (deque(), deque(), deque())

    def __bool__(self) -> bool:
        return any(self._levels)

    @property
    def at_hand(self) -> int:
        """Tasks that a worker should have at a time."""
        return self._pace.at_hand

    def add(self, tasks: Iterable[Task]) -> None:
        """Behind all others of their level."""
        for task in tasks:
            self._levels[task.made_way].append(task)

    def give_back(self, tasks: Iterable[Task]) -> None:
        """In front of all others: they were taken before."""
        for task in reversed(list(tasks)):
            self._levels[task.made_way].appendleft(task)

    def take(self) -> Task | None:
        """The next ordinary task, or one that made way and is tried again at once."""
        return self._levels[0].popleft() if self._levels[0] else None

    def take_second(self) -> Task | None:
        """The next task that made way once, when no ordinary one waits."""
        return None if self._levels[0] or not self._levels[1] else self._levels[1].popleft()

    def take_slow(self) -> Task | None:
        """The next slow task, once no other waits."""
        return None if any(self._levels[:2]) or not self._levels[2] else self._levels[2].popleft()

    def take_all(self) -> list[Task]:
        """All there are, when the pool ends."""
        tasks = [task for level in self._levels for task in level]
        for level in self._levels:
            level.clear()
        return tasks

    def patience_s(self, task: Task, followed: bool) -> float:
        """Seconds that a task in work may take before it makes way.

        `followed` says whether its worker has another task for afterwards.
        """
        if task.slow or not (followed or any(self._levels[:2])):
            return math.inf
        first = self._pace.patience_s
        return max(_SECOND_TRY * first, _SECOND_TRY_S) if task.made_way else first

    def make_way(self, task: Task, seconds: float) -> None:
        """Let the others go before a task that was stopped after `seconds`."""
        if task.made_way:
            self._pace.unfinished_second()
        else:
            self._pace.unfinished()
        task.make_way(seconds)
        sounded = not task.slow and self._made_way % _SOUNDED == 0
        self._made_way += not task.slow
        if sounded:
            self._levels[0].appendleft(task)
        else:
            self.add([task])

    def judged(self, task: Task, seconds: float) -> None:
        """Learn from a verdict; `seconds` is the least patience that it needed."""
        if task.slow:
            self._pace.finished_last(seconds)
        elif task.made_way:
            self._pace.finished_second(max(seconds, task.tried_s))
        else:
            self._pace.finished(seconds)

    def timed_out(self, task: Task) -> None:
        """Learn that there was no verdict within the deadline."""
        if not task.made_way:
            self._pace.unfinished()
        elif not task.slow:
            self._pace.unfinished_second()
