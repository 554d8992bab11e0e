"""When a number of an update is not finite: the evidence, kept in a file that reproduces it.

`rlvr_platform.update.optimizer_step` refuses the step and gathers the evidence; this module
writes it, reads it, and works the loss of each row out again, without the model.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from rlvr_platform.batching.rows import Rows
from rlvr_platform.config.algorithm import AlgorithmConfig
from rlvr_platform.errors import InputError, NumericalError, RlvrError
from rlvr_platform.files import NPZ_ERRORS, disk_errors, write_atomic
from rlvr_platform.types import TokenSums

WANTED = "a finite loss and a finite gradient"
FIX = (
    "resume from the last checkpoint with a lower learning rate or learner.dtype=float32; "
    "learner.on_non_finite=skip leaves such optimizer steps out and goes on"
)
_FORMAT = 1
_ROWS = tuple(field.name for field in fields(Rows))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """The offending rows of one rank in a refused optimizer step, with what their loss is made of.

    The scores are float [S], parallel to `rows.tokens`, nats, NaN where a token is not trained.
    """

    reason: str
    """What was not finite, and what it was instead: "loss is nan"."""
    rows: Rows
    logprobs: np.ndarray
    """The policy's log-probabilities in the refused step."""
    old: np.ndarray
    """The trainer's before the update; those of the policy when weights had not moved."""
    reference: np.ndarray | None
    """The reference policy's; None without one."""
    algorithm: AlgorithmConfig

    @property
    def summary(self) -> str:
        """The reason, and which inputs of the loss are to blame for it."""
        rows = range(self.rows.count)
        blamed = dict.fromkeys(name for row in rows for name in _row_inputs(self, row))
        return (
            f"the {self.reason}; not finite among the inputs of the loss: "
            f"{', '.join(blamed) or 'none of them'}"
        )


@dataclass(frozen=True, slots=True)
class Place:
    """Which optimizer step of a run was refused, on which rank."""

    step: int
    rank: int
    minibatch: int

    @property
    def file_name(self) -> str:
        later = f"-minibatch-{self.minibatch}" if self.minibatch else ""
        return f"step-{self.step:06d}-rank-{self.rank}{later}.npz"


class NonFiniteUpdate(NumericalError):
    """An optimizer step that was refused on every rank: weights and optimizer are as before."""

    def __init__(self, evidence: Evidence | None) -> None:
        """`evidence` is None on a rank whose own losses are finite while another's are not."""
        reason = evidence.summary if evidence else "the loss of another rank is not finite"
        super().__init__(reason, WANTED, FIX)
        self.evidence = evidence

    def __reduce__(self) -> tuple[type[NumericalError], tuple[str, str, str]]:
        """Leave the evidence behind when the error crosses to another process."""
        return NumericalError, (self.got, self.wanted, self.fix)


def take_rows(rows: Rows, chosen: np.ndarray) -> Rows:
    """Some of the rows, in the order of `chosen`, integers."""
    spans = [np.arange(rows.offsets[row], rows.offsets[row + 1]) for row in chosen]
    tokens = np.concatenate([np.empty(0, np.int64), *spans])
    return Rows(
        tokens=rows.tokens[tokens],
        offsets=np.concatenate([[0], np.cumsum(rows.lengths[chosen], dtype=np.int64)]),
        trained=rows.trained[tokens],
        behaviour=rows.behaviour[tokens],
        advantage=rows.advantage[chosen],
        weight=rows.weight[chosen],
        group=rows.group[chosen],
        prompt_length=rows.prompt_length[chosen],
    )


def keep(evidence: Evidence, folder: Path, place: Place) -> str:
    """Write the evidence into `folder`; returns what happened and where it can be read.

    A disk that does not take the file changes the message, and hides nothing.
    """
    path = folder / place.file_name
    try:
        with disk_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_evidence(path, evidence, place)
    except RlvrError as error:
        return f"{evidence.summary} (the rows are lost: {error.got})"
    return f"{evidence.summary} (rows in {path})"


def require_finite(messages: Sequence[str], on_non_finite: str) -> None:
    """Raise NumericalError with what the ranks found, unless such steps are to be skipped."""
    if messages and on_non_finite == "stop":
        raise NumericalError("; ".join(messages), WANTED, FIX)


def write_evidence(path: Path, evidence: Evidence, place: Place) -> None:
    """Write an .npz file, whole or not at all. Raises InputError or ClusterError as
    `write_atomic` does."""
    about = {
        "format": _FORMAT,
        "reason": evidence.reason,
        **asdict(place),
        "algorithm": evidence.algorithm.model_dump(mode="json"),
    }
    columns = {name: getattr(evidence.rows, name) for name in _ROWS}
    scores = {"logprobs": evidence.logprobs, "old": evidence.old}
    if evidence.reference is not None:
        scores["reference"] = evidence.reference
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, about=json.dumps(about), **columns, **scores)
    write_atomic(path, buffer.getvalue())


def read_evidence(path: Path) -> tuple[Place, Evidence]:
    """Read what `write_evidence` wrote; raises InputError for any other file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            evidence = Evidence(
                reason=about["reason"],
                rows=Rows(**{name: file[name] for name in _ROWS}),
                logprobs=file["logprobs"],
                old=file["old"],
                reference=file.get("reference"),
                algorithm=AlgorithmConfig.model_validate_json(json.dumps(about["algorithm"])),
            )
        return Place(about["step"], about["rank"], about["minibatch"]), evidence
    except (*NPZ_ERRORS, KeyError, TypeError) as error:
        raise InputError(
            f"cannot read {path}: {error}",
            "a file that a run wrote into its folder offending/",
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class RowLosses:
    """Every row's part of the loss, worked out again. Columns have shape [R]."""

    loss: np.ndarray
    """float, weight * token loss summed over the row; over the rows it adds up to the loss."""
    gradient: np.ndarray
    """float, norm of the loss's gradient with respect to the row's log-probabilities."""
    faults: tuple[tuple[str, ...], ...]
    """Names of what is not finite in the row, inputs first; empty where everything is."""


def row_losses(evidence: Evidence) -> RowLosses:
    """Work the loss of each row out from the file alone, by the learner's own objective."""
    pairs = [_row_sums(evidence, row) for row in range(evidence.rows.count)]
    return RowLosses(
        loss=np.array([sums.loss for sums, _ in pairs]),
        gradient=np.array([gradient for _, gradient in pairs]),
        faults=tuple(
            (*_row_inputs(evidence, row), *faults(sums), *_named("gradient", gradient))
            for row, (sums, gradient) in enumerate(pairs)
        ),
    )


def faults(sums: TokenSums) -> tuple[str, ...]:
    """Names of the sums that are not finite, the loss before the statistics."""
    values = asdict(sums)
    return tuple(name for name in values if not math.isfinite(values[name]))


def _row_sums(evidence: Evidence, row: int) -> tuple[TokenSums, float]:
    import torch

    from rlvr_platform.algorithms.objective import objective

    where, rows, reference = _trained(evidence.rows, row), evidence.rows, evidence.reference
    count = len(where)
    logprobs = torch.from_numpy(evidence.logprobs[where]).requires_grad_()
    loss, sums = objective(
        logprobs,
        torch.zeros_like(logprobs),
        torch.from_numpy(evidence.old[where]),
        torch.from_numpy(rows.behaviour[where]),
        torch.from_numpy(np.repeat(rows.advantage[row], count)),
        torch.from_numpy(np.repeat(rows.weight[row], count)),
        torch.full((count,), row),
        None if reference is None else torch.from_numpy(reference[where]),
        evidence.algorithm,
    )
    (gradient,) = torch.autograd.grad(loss, logprobs)
    return sums, gradient.norm().item()


def _row_inputs(evidence: Evidence, row: int) -> tuple[str, ...]:
    rows, where, reference = evidence.rows, _trained(evidence.rows, row), evidence.reference
    return (
        *_named("behaviour", rows.behaviour[where]),
        *_named("advantage", rows.advantage[row]),
        *_named("weight", rows.weight[row]),
        *_named("policy", evidence.logprobs[where]),
        *_named("old", evidence.old[where]),
        *(_named("reference", reference[where]) if reference is not None else ()),
    )


def _named(name: str, values: np.ndarray | float) -> tuple[str, ...]:
    """The name when one of the values is not finite."""
    return () if np.isfinite(values).all() else (name,)


def _trained(rows: Rows, row: int) -> np.ndarray:
    """Positions of the row's trained tokens."""
    start, end = rows.offsets[row], rows.offsets[row + 1]
    return start + np.flatnonzero(rows.trained[start:end])
