"""What must hold of a run after its faults. Each check returns the problems it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.rollouts import read_rollouts
from tests.e2e.conftest import Run

Record = Mapping[str, float]
Row = Mapping[str, Any]
FATES = {
    "trained": ("TRAINED",),
    "rescued": ("RESCUED",),
    "down_sampled": ("DOWN_SAMPLED",),
    "dropped": ("DROPPED_NO_SIGNAL", "DROPPED_OVERLONG"),
    "pooled": ("POOLED",),
    "invalid": ("INVALID",),
}
"""The metric that counts each fate of a fresh rollout; together they are `generated`."""
PROOF_NATS = 1e-3


def finished_whole(run: Run, steps: int, max_lag: int) -> list[str]:
    """Everything that holds of a run to its last step, whatever happened on the way."""
    if run.code != 0:
        return [f"exit code {run.code}: {run.output[-1500:]}"]
    records = run.metrics
    problems = [*steps_once(records, steps), *bounds(records, max_lag)]
    if problems:
        return problems
    folder = RunFolder(run.folder)
    columns = ["step", "group_id", "sibling", "fate"]
    rows = {
        step: read_rollouts(folder.rollouts(step)).select(columns).to_pylist()
        for step in range(1, steps + 1)
    }
    return ledger(records[1:], rows)


def steps_once(records: Sequence[Record], steps: int) -> list[str]:
    """Every step once and in order, the state before training included."""
    found = [int(record["step"]) for record in records]
    problems = []
    if found != list(range(steps + 1)):
        problems.append(f"steps {found}, wanted 0 to {steps}")
    updates = [r["optimizer_steps"] for r in records if "optimizer_steps" in r]
    if updates != list(range(1, len(updates) + 1)):
        problems.append(f"optimizer steps {updates}, wanted each once")
    return problems


def bounds(records: Sequence[Record], max_lag: int) -> list[str]:
    """The lag bound, and engines whose weights were proven to be the learner's."""
    problems = []
    for record in records:
        if record.get("lag/max", 0) > max_lag:
            problems.append(f"step {record['step']}: lag {record['lag/max']:g} above {max_lag}")
        if record.get("sync/probe_max_abs_diff", 0) > PROOF_NATS:
            problems.append(f"step {record['step']}: engine and learner differ after the sync")
    return problems


def ledger(records: Sequence[Record], rows: Mapping[int, Sequence[Row]]) -> list[str]:
    """Every generated rollout has one fate, and none is trained on twice in a step."""
    problems, origin = [], dict[int, int]()
    for record in records:
        step = int(record["step"])
        fresh = [row for row in rows[step] if row["fate"] != "REPLAYED"]
        replayed = [row for row in rows[step] if row["fate"] == "REPLAYED"]
        groups = {row["group_id"] for row in fresh}
        found = [
            *_counted(record, fresh, replayed),
            *(f"{what} twice" for what in _twice([*fresh, *replayed])),
            *(f"group {g} also in step {origin[g]}" for g in groups if g in origin),
            *_gaps(fresh),
            *_strangers(step, fresh, replayed, origin),
        ]
        problems += [f"step {step}: {problem}" for problem in found]
        origin |= dict.fromkeys(groups, step)
    return problems


def _counted(record: Record, fresh: Sequence[Row], replayed: Sequence[Row]) -> Iterable[str]:
    """The files' fates against the metrics, and the metrics among themselves."""
    fates = Counter(row["fate"] for row in fresh)
    counts = {end: sum(fates[fate] for fate in names) for end, names in FATES.items()}
    counts |= {"generated": len(fresh), "replayed": len(replayed)}
    for end, count in counts.items():
        if record.get(f"rollouts/{end}", 0) != count:
            yield f"{count} rollouts {end} in the file, {record.get(f'rollouts/{end}')} in metrics"
    if unknown := fates.keys() - {fate for names in FATES.values() for fate in names}:
        yield f"fates {sorted(unknown)} are counted nowhere"


def _twice(rows: Sequence[Row]) -> list[str]:
    count = Counter((row["group_id"], row["sibling"]) for row in rows)
    return [f"rollout {group}/{sibling}" for (group, sibling), n in count.items() if n > 1]


def _gaps(fresh: Sequence[Row]) -> Iterable[str]:
    """Groups of which a sibling is missing."""
    siblings: dict[int, set[int]] = {}
    for row in fresh:
        siblings.setdefault(row["group_id"], set()).add(row["sibling"])
    for group, present in siblings.items():
        if present != set(range(len(present))):
            yield f"group {group} has only the siblings {sorted(present)}"


def _strangers(
    step: int, fresh: Sequence[Row], replayed: Sequence[Row], origin: Mapping[int, int]
) -> Iterable[str]:
    """Fresh rows of another step, and replayed ones that no earlier step generated."""
    for row in fresh:
        if row["step"] != step:
            yield f"rollout {row['group_id']}/{row['sibling']} is of step {row['step']}"
    for row in replayed:
        if origin.get(row["group_id"]) != row["step"]:
            yield f"replayed {row['group_id']}/{row['sibling']} is of no earlier step"
