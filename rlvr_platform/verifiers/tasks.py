"""What is graded together, and how its verdicts are put together again."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from rlvr_platform.config.verifier import VerifierConfig
from rlvr_platform.types import Outcome, Verdict
from rlvr_platform.verifiers.base import reward_of

_TRIES_IN_TURN = 2


@dataclass(frozen=True, slots=True)
class GradeItem:
    """One completion to judge."""

    prediction: str
    gold: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Plain picklable data."""


class Submission:
    """Items that were submitted together; resolves one future when all have a verdict."""

    def __init__(self, items: Sequence[GradeItem], config: VerifierConfig) -> None:
        self.future: Future[list[Verdict]] = Future()
        self.future.set_running_or_notify_cancel()  # Verdicts cannot be called off.
        self.tasks = [Task(self, i, item) for i, item in enumerate(items)]
        self._config = config
        self._verdicts: dict[int, Verdict] = {}
        if not items:
            self.future.set_result([])

    def receive(self, index: int, verdict: Verdict) -> None:
        """Take the verdict of item `index`; the last one resolves the future."""
        self._verdicts[index] = verdict
        if len(self._verdicts) == len(self.tasks):
            self.future.set_result([self._verdicts[i] for i in range(len(self.tasks))])

    def reward(self, outcome: Outcome, score: float | None) -> float | None:
        """What this submission's configuration pays for a finding."""
        return reward_of(outcome, self._config, score)

    def fail(self, error: Exception) -> None:
        """No verdict will come for some item: the future raises."""
        if not self.future.done():
            self.future.set_exception(error)


class Task:
    """One item on its way to a verdict."""

    __slots__ = ("_index", "_submission", "deaths", "made_way", "payload", "spent", "tried_s")

    def __init__(self, submission: Submission, index: int, item: GradeItem) -> None:
        self._submission, self._index = submission, index
        content = (item.prediction, item.gold, dict(item.options))
        self.payload = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
        """The item as a worker reads it."""
        self.spent = 0.0
        """Seconds taken by workers that died over this item."""
        self.deaths = 0
        self.made_way = 0
        """How often it was too slow to hold up the others; it starts anew each time."""
        self.tried_s = 0.0
        """Seconds that it had the last time."""

    @property
    def slow(self) -> bool:
        """Whether it made way twice: it has its whole deadline now, beside the others."""
        return self.made_way == _TRIES_IN_TURN

    def make_way(self, tried_s: float) -> None:
        """Let the others go first, after `tried_s` seconds."""
        self.made_way += 1
        self.tried_s = tried_s

    def deliver(
        self, outcome: str, extracted: str, rule: str, seconds: float, score: float | None = None
    ) -> None:
        """Hand over the verdict, once."""
        kind = Outcome(outcome)
        verdict = Verdict(kind, self._submission.reward(kind, score), extracted, rule, seconds)
        self._submission.receive(self._index, verdict)

    def fail(self, error: Exception) -> None:
        """Give up, because the pool ends."""
        self._submission.fail(error)
