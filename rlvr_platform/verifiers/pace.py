"""When an item that keeps others waiting should make way: learnt from how long items take."""

from __future__ import annotations

import math
from collections import deque
from itertools import cycle, islice

import numpy as np

_TRIES = 128
"""Remembered."""
_FINISHED_TRIES = 16
"""Below this number every item may take its whole deadline."""
_NEWS = 32
"""Tries after which the patience is worked out again."""
_MARGIN = 1.25
_SECOND_TRIES = 16
"""Remembered."""
_REPLACEMENT_S = 0.01
"""Of processor time to end a process and to fork and warm another: 5.4 ms for 90 MiB that do
nothing, 9 to 11 ms with the first 50 mathematics items. No item makes way for less."""
_AT_HAND, _MOST_AT_HAND = 2, 8
"""The task being judged and the next, so that no worker waits for the pool's thread."""
_AT_HAND_S = 0.001
"""Of quicker tasks a worker has so many seconds' worth at hand: fewer wake-ups for each."""
_EXTRA_WORK = 0.1
"""The most that starting items again may add to all work, as a share."""


class Pace:
    """The times of the latest items, and the patience that follows from them.

    The patience is the quantum of the largest Gittins index (Gittins 1979, Bandit processes and
    dynamic allocation indices): it makes the expected number of verdicts per second of work
    largest, where an item that makes way costs the patience and the replacement of its process.
    """

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._seconds: deque[float] = deque(maxlen=_TRIES)
        """Infinite for items that have not ended at the first try."""
        self._later: deque[float] = deque(maxlen=_SECOND_TRIES)
        """What items that made way have needed; infinite for those that have not ended at all. The
        others of them are taken to need the same."""
        self._news = 0
        self.patience_s = math.inf
        """Seconds after which an item makes way."""
        self.at_hand = _AT_HAND
        """Tasks that a worker should have at a time."""

    def finished(self, seconds: float) -> None:
        """An item had its verdict at the first try."""
        self._seconds.append(seconds)
        self._learn()

    def unfinished(self) -> None:
        """An item made way or met its deadline."""
        self._seconds.append(math.inf)
        self._learn()

    def finished_second(self, seconds: float) -> None:
        """An item that had made way needed so long."""
        self._later.append(seconds)
        self._learn()

    def unfinished_second(self) -> None:
        """An item made way again."""
        self._later.append(math.inf)
        self._learn()

    def finished_last(self, seconds: float) -> None:
        """An item that had made way twice needed so long."""
        if math.inf in self._later:
            self._later[self._later.index(math.inf)] = seconds
        self._learn()

    def _learn(self) -> None:
        self._news += 1
        if self._news >= _NEWS:
            self._news = 0
            self.patience_s = self._best_patience()
            self.at_hand = self._enough()

    def _enough(self) -> int:
        typical = float(np.median(self._seconds))
        return int(min(max(_AT_HAND_S / max(typical, 1e-9), _AT_HAND), _MOST_AT_HAND))

    def _best_patience(self) -> float:
        first = [seconds for seconds in self._seconds if seconds < math.inf]
        later = islice(cycle(self._later), len(self._seconds) - len(first))
        finished = np.sort([*first, *(seconds for seconds in later if seconds < math.inf)])
        if len(finished) < _FINISHED_TRIES:
            return math.inf
        patience = np.maximum(_REPLACEMENT_S, _MARGIN * finished)
        done = np.searchsorted(finished, patience, side="right")
        extra = (len(self._seconds) - done) * (patience + _REPLACEMENT_S)
        rate = done / (np.cumsum(finished)[done - 1] + extra)
        endless = len(self._seconds) - len(finished)
        work = finished.sum() + endless * self._deadline_s
        affordable = extra <= _EXTRA_WORK * work
        affordable[-1] = True  # Nothing that ever finished makes way.
        rate[~affordable] = 0.0
        return float(patience[rate == rate.max()].max())
