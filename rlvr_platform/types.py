"""The records that travel between stages. Follow one rollout by reading this file downwards.

    Prompt -> Allocation -> Ticket -> RolloutGroup (+ GroupSummary) -> Verdict -> GradedGroup
           -> TrainBatch (rows that point into groups, fresh and replayed) -> LearnerReport

Axis names used in shapes: B groups, G siblings of a group, P prompt tokens,
T completion tokens of one sibling, S = sum of T over the siblings, R rows of a batch.
Everything is numpy or plain Python; arrays that come out of the object store are read-only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """One verifiable task, rendered and tokenised."""

    index: int
    """Position in its source: stable across epochs and resumes."""
    text: str
    """The rendered prompt, chat template applied."""
    tokens: np.ndarray
    """int32 [P], what the engine is given."""
    gold: str
    """The reference answer, as the verifier takes it."""
    source: str
    """Name of the data source."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields for the verifier, e.g. the choices of a multiple-choice task."""
    origin: str = ""
    """Where it was read, for messages: a file and its line."""


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """How a step's rollout budget is spread over its prompts, and what was expected of them."""

    counts: np.ndarray
    """int64 [B], rollouts of each prompt; they sum to the budget."""
    predicted: np.ndarray
    """float64 [B], predicted success probability; NaN when nothing predicts."""
    baseline: np.ndarray
    """float64 [B], the same by a per-prompt moving average; NaN when nothing predicts."""
    expected_collapse: float
    """Expected share of collapsed groups at these counts; NaN when nothing predicts."""
    fallback: str = ""
    """Why the counts are uniform although they should not be; empty when they are as asked."""


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What a step's prompts turned out to be: raw outcomes, before any method selects."""

    prompts: np.ndarray
    """int64 [B], positions in the source."""
    successes: np.ndarray
    """float64 [B], sum of the valid rewards, mapped to [0, 1]."""
    counts: np.ndarray
    """int64 [B], rollouts with a verdict."""
    tokens: np.ndarray
    """int64 [B], completion tokens of these rollouts."""

    @property
    def success_rate(self) -> float:
        """Mean over the prompts that have a verdict; NaN without one."""
        seen = self.counts > 0
        return float((self.successes[seen] / self.counts[seen]).mean()) if seen.any() else np.nan


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A reservation: this prompt gets this many rollouts for that training step."""

    group_id: int
    """Unique in a run, increasing in reservation order."""
    step: int
    """The training step that will consume the group."""
    prompt: Prompt
    n: int
    """Rollouts asked for, >= 1."""
    seed: int
    """Seed of the group's sampling; sibling i uses seed + i."""


class Finish(IntEnum):
    """Why a completion ended."""

    STOP = 0
    """The policy emitted an end token."""
    LENGTH = 1
    """The token limit cut it."""
    ABORT = 2
    """The engine gave it up; it has no verdict and is not trained on."""


@dataclass(frozen=True, slots=True, eq=False)
class RolloutGroup:
    """All siblings of one prompt, columnar: the token arrays are concatenated over siblings."""

    ticket: Ticket
    tokens: np.ndarray
    """int32 [S], completion tokens, end token included when the policy emitted it."""
    offsets: np.ndarray
    """int64 [G+1]; sibling i owns tokens[offsets[i]:offsets[i+1]]."""
    loss_mask: np.ndarray
    """bool [S]; False where the policy did not sample the token (tool output)."""
    logprobs: np.ndarray
    """float32 [S], behaviour log-probability under the sampling distribution, nats."""
    versions: np.ndarray
    """int32 [S], weight version that sampled each token."""
    finish: np.ndarray
    """uint8 [G], values of `Finish`."""
    texts: tuple[str, ...]
    """G decoded completions, for the verifier and the viewer only."""

    @property
    def size(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Memory of arrays and texts, prompt included."""
        prompt = self.ticket.prompt
        arrays = (prompt.tokens, self.tokens, self.offsets, self.loss_mask, self.logprobs)
        texts = sum(len(text) for text in (prompt.text, *self.texts))
        return sum(array.nbytes for array in (*arrays, self.versions, self.finish)) + texts

    def sibling(self, i: int) -> slice:
        """The slice of the concatenated arrays that sibling `i` owns."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSummary:
    """What the controller knows of a group: counts, never tokens."""

    group_id: int
    step: int
    prompt_index: int
    prompt_tokens: int
    lengths: np.ndarray
    """int32 [G], completion tokens."""
    trained_tokens: np.ndarray
    """int32 [G], completion tokens with loss_mask True."""
    first_version: np.ndarray
    """int32 [G], oldest weight version among the sibling's tokens: its birth."""
    finish: np.ndarray
    """uint8 [G], values of `Finish`."""
    seconds: float
    """Wall time from submission to the last token."""
    nbytes: int
    """Memory of the group's tokens and texts."""

    @property
    def size(self) -> int:
        return len(self.lengths)


def summarise(group: RolloutGroup, seconds: float) -> GroupSummary:
    """Reduce a group to counts."""
    starts, empty = group.offsets[:-1], np.diff(group.offsets) == 0
    if empty.any():
        raise ValueError(f"group {group.ticket.group_id} has an empty completion")
    return GroupSummary(
        group_id=group.ticket.group_id,
        step=group.ticket.step,
        prompt_index=group.ticket.prompt.index,
        prompt_tokens=len(group.ticket.prompt.tokens),
        lengths=np.diff(group.offsets).astype(np.int32),
        trained_tokens=np.add.reduceat(group.loss_mask.astype(np.int32), starts).astype(np.int32),
        first_version=np.minimum.reduceat(group.versions, starts),
        finish=group.finish,
        seconds=seconds,
        nbytes=group.nbytes,
    )


@dataclass(frozen=True, slots=True, eq=False)
class FinishedGroups:
    """Groups that finished together, one or more: their summaries, and a handle to the tokens.

    They travel together to verifier and buffer, since each message costs about a millisecond.
    """

    summaries: tuple[GroupSummary, ...]
    handle: Any
    """A Ray object reference to a tuple of `RolloutGroup`, or that tuple in one process."""

    @property
    def group_ids(self) -> tuple[int, ...]:
        return tuple(summary.group_id for summary in self.summaries)


@dataclass(frozen=True, slots=True, eq=False)
class Quarantined:
    """A ticket that is given up: engines die over its prompt, or never finish it."""

    ticket: Ticket
    reason: str

    @property
    def group_ids(self) -> tuple[int, ...]:
        return (self.ticket.group_id,)


class Outcome(StrEnum):
    """What a verifier found. Only `correct` and `wrong` and `no_answer` carry a reward."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    TIMEOUT = "timeout"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A typed outcome for one completion; never a bare number."""

    outcome: Outcome
    reward: float | None
    """None exactly when the outcome is timeout or error: no verdict is not a zero. Verifiers that
    give part marks pay shares between the rewards of a wrong and a correct answer."""
    extracted: str
    """The answer as found in the completion, empty when there is none."""
    rule: str
    """The rule that decided, or the reason why nothing could be decided."""
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class GradedGroups:
    """Finished groups with a verdict for every sibling of every group."""

    finished: FinishedGroups
    verdicts: tuple[tuple[Verdict, ...], ...]
    """Per group, per sibling."""


@dataclass(frozen=True, slots=True, eq=False)
class GradedGroup:
    """One graded group, as the buffer hands it out."""

    summary: GroupSummary
    verdicts: tuple[Verdict, ...]
    handle: Any
    """Where the `RolloutGroup` is (actors/groups.py), or the group itself in one process."""

    @property
    def rewards(self) -> np.ndarray:
        """float64 [G], NaN where there is no verdict."""
        return np.array([np.nan if v.reward is None else v.reward for v in self.verdicts])


class Fate(IntEnum):
    """What became of a rollout. Every rollout gets exactly one."""

    TRAINED = 0
    DROPPED_NO_SIGNAL = 1
    """All siblings got the same reward: the advantage is zero."""
    INVALID = 2
    """No verdict (timeout or error), or aborted by the engine."""
    RESCUED = 3
    """Trained, though all siblings got the same reward: AVSPO gave the group an advantage."""
    DOWN_SAMPLED = 4
    """Left out by PODS's selection inside its group."""
    DROPPED_OVERLONG = 5
    """Cut by the token limit, under algorithm.overlong.kind=mask."""
    POOLED = 6
    """Put into the replay pool and not drawn from it in this step (composition=pool)."""
    REPLAYED = 7
    """Generated in an earlier step and trained on again in this one."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainBatch:
    """The rows of one update, as pointers into groups; columns have shape [R]."""

    step: int
    version: int
    """Weight version the update starts from."""
    handles: tuple[Any, ...]
    """One handle per group that has rows, see `GradedGroup.handle`."""
    group: np.ndarray
    """int32 [R], index into `handles`."""
    sibling: np.ndarray
    """int32 [R], sibling inside the group."""
    advantage: np.ndarray
    """float32 [R]."""
    weight: np.ndarray
    """float32 [R], multiplies the row's loss; 1 unless a method says otherwise."""
    length: np.ndarray
    """int32 [R], prompt plus completion tokens: what the row costs."""
    trained_tokens: np.ndarray
    """int32 [R], tokens that carry gradient."""

    @property
    def rows(self) -> int:
        return len(self.group)


@dataclass(frozen=True, slots=True)
class TokenSums:
    """Sums over trained tokens; add them up over micro-batches and ranks, then divide once."""

    tokens: float = 0.0
    loss: float = 0.0
    """Already weighted by its optimizer step's denominator; mean over optimizer steps."""
    entropy: float = 0.0
    kl_behaviour: float = 0.0
    kl_reference: float = 0.0
    clipped: float = 0.0
    truncated: float = 0.0

    def __add__(self, other: TokenSums) -> TokenSums:
        return TokenSums(
            *(getattr(self, f.name) + getattr(other, f.name) for f in fields(TokenSums))
        )

    def mean(self, name: str) -> float:
        """A column's mean over trained tokens; 0 when nothing was trained."""
        return float(getattr(self, name) / self.tokens) if self.tokens else 0.0


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """What one update did, reduced over all ranks. Means are over trained tokens."""

    loss: float
    grad_norm: float
    """Global gradient norm before clipping."""
    learning_rate: float
    entropy: float
    """Mean entropy of the policy at the trained positions, nats."""
    kl_behaviour: float
    """Mean k3 estimate of KL(behaviour || policy before the update), nats."""
    kl_reference: float
    """Mean KL value against the reference policy, nats; 0 without a reference."""
    clip_fraction: float
    """Share of trained tokens whose ratio was clipped."""
    truncated_fraction: float
    """Share of trained tokens whose engine/trainer importance weight was truncated."""
    tokens: int
    """Tokens trained on, over all ranks."""
    optimizer_steps: int
    """Optimizer steps taken since the start of the run."""
    micro_batches: int
    """Forward passes of each rank."""
    skipped_updates: int
    """Optimizer steps not taken, because something of theirs was not finite."""
    refusals: tuple[str, ...]
    """What that was, a message for each rank that met it."""
    seconds: float
    """Wall time inside the slowest rank."""


@dataclass(frozen=True, slots=True, eq=False)
class WeightSnapshot:
    """One published version of the policy and what an engine needs to prove it has it."""

    version: int
    handles: tuple[Any, ...]
    """One per learner rank, transport-specific: where the tensors are."""
    nbytes: int
    probe_tokens: np.ndarray
    """int32 [P], the probe prompt."""
    probe_logprobs: Any
    """Awaitable float32 [P-1], the learner's log-probabilities of tokens 1..P-1: it works them
    out while the engines load."""
    seconds: float
    """Wall time of the publication inside the slowest learner rank."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Weights loaded and proven, over all engines."""

    probe_max_abs_diff: float
    """Largest difference of probe log-probabilities, engines against learner, nats."""
    seconds: float
    """Wall time inside the slowest engine."""
