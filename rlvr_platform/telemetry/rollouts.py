"""Every rollout of a step as a row of one Parquet file: what was asked, said, judged, done."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_platform.errors import InputError
from rlvr_platform.files import write_atomic
from rlvr_platform.types import Fate, Finish, GradedGroup, RolloutGroup

SCHEMA = pa.schema(
    [
        ("step", pa.int32()),
        ("group_id", pa.int64()),
        ("sibling", pa.int32()),
        ("prompt_index", pa.int64()),
        ("source", pa.string()),
        ("prompt", pa.string()),
        ("completion", pa.string()),
        ("gold", pa.string()),
        ("options", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.bool_())),
        ("logprobs", pa.list_(pa.float32())),
        ("first_version", pa.int32()),
        ("last_version", pa.int32()),
        ("finish", pa.string()),
        ("verdict", pa.string()),
        ("extracted", pa.string()),
        ("rule", pa.string()),
        ("verify_seconds", pa.float32()),
        ("reward", pa.float64()),
        ("advantage", pa.float32()),
        ("fate", pa.string()),
    ]
)
"""step: the step that generated the rollout; with the fate REPLAYED, an earlier one than the
file's. first_version, last_version: oldest and newest weight version among the tokens, null for an
empty completion. options: what the verifier was given besides, a JSON object. reward: null exactly
when there is no verdict. advantage: null where NaN."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A group, or some siblings of it, with what became of them in one step."""

    group: RolloutGroup
    graded: GradedGroup
    advantages: np.ndarray
    """float [G], NaN where a rollout has none."""
    fates: np.ndarray
    """[G], values of `Fate`."""
    siblings: np.ndarray
    """Which siblings to write, integers."""


def write_rollouts(path: Path, recorded: Sequence[Recorded]) -> None:
    """Write one step's rollouts to `path`, a row for each sibling, in the order given.

    Raises ValueError when the parts of a group do not belong together, InputError when the disk
    does not take the file.
    """
    tables = [_table(one).take(one.siblings) for one in recorded] or [SCHEMA.empty_table()]
    buffer = io.BytesIO()
    pq.write_table(pa.concat_tables(tables), buffer, compression="zstd")
    write_atomic(path, buffer.getvalue())


def read_rollouts(path: Path) -> pa.Table:
    """The rows of a step, with the columns of `SCHEMA`. Raises InputError for any other file."""
    try:
        table = pq.read_table(path)
        if "options" not in table.column_names:  # Up to version 0.1.0 verifiers took none.
            table = table.append_column("options", pa.array(["{}"] * len(table), pa.string()))
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}", "a rollouts file of a run") from None


def _table(recorded: Recorded) -> pa.Table:
    group, graded = recorded.group, recorded.graded
    advantages, fates = recorded.advantages, recorded.fates
    ticket, count = group.ticket, group.size
    sizes = {count, len(graded.verdicts), len(advantages), len(fates)}
    if len(sizes) > 1 or graded.summary.group_id != ticket.group_id:
        raise ValueError(f"group {ticket.group_id}: its verdicts, advantages or fates differ")
    columns: dict[str, Any] = {
        "step": [ticket.step] * count,
        "group_id": [ticket.group_id] * count,
        "sibling": range(count),
        "prompt_index": [ticket.prompt.index] * count,
        "source": [ticket.prompt.source] * count,
        "prompt": [ticket.prompt.text] * count,
        "completion": group.texts,
        "gold": [ticket.prompt.gold] * count,
        "options": [json.dumps(dict(ticket.prompt.options))] * count,
        **_token_columns(group),
        "finish": [Finish(value).name for value in group.finish],
        **_verdict_columns(graded),
        "advantage": pa.array(advantages, pa.float32(), from_pandas=True),
        "fate": [Fate(value).name for value in fates],
    }
    return pa.table(columns, schema=SCHEMA)


def _token_columns(group: RolloutGroup) -> dict[str, Any]:
    offsets = pa.array(group.offsets, pa.int32())
    lists = {
        name: pa.ListArray.from_arrays(offsets, pa.array(values))
        for name, values in (
            ("tokens", group.tokens),
            ("loss_mask", group.loss_mask),
            ("logprobs", group.logprobs),
        )
    }
    versions = [group.versions[group.sibling(i)] for i in range(group.size)]
    return lists | {
        "first_version": [int(v.min()) if len(v) else None for v in versions],
        "last_version": [int(v.max()) if len(v) else None for v in versions],
    }


def _verdict_columns(graded: GradedGroup) -> dict[str, Any]:
    verdicts = graded.verdicts
    return {
        "verdict": [v.outcome.value for v in verdicts],
        "extracted": [v.extracted for v in verdicts],
        "rule": [v.rule for v in verdicts],
        "verify_seconds": [v.seconds for v in verdicts],
        "reward": [v.reward for v in verdicts],
    }
