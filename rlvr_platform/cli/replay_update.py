"""`rlvr replay-update`: the rows of an optimizer step that was refused, and what is wrong there."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from rlvr_platform.guards import read_evidence, row_losses


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command and its arguments."""
    parser = subparsers.add_parser(
        "replay-update",
        help="work out again the loss of an update that was not finite",
        description="Reads a file that a run wrote into its folder offending/ and computes the "
        "loss of every row again, without the model. Prints which rows are at fault and what is "
        "not finite in them. Numbers that are not finite are written as text.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="RUN/offending/step-*.npz")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one JSON object; returns 0. Raises InputError for any other file."""
    place, evidence = read_evidence(args.file)
    losses, rows = row_losses(evidence), evidence.rows
    found = {
        **asdict(place),
        "reason": evidence.reason,
        "loss": _number(losses.loss.sum()),
        "rows": [
            {
                "row": row,
                "group": int(rows.group[row]),
                "tokens": int(rows.lengths[row]),
                "advantage": _number(rows.advantage[row]),
                "weight": _number(rows.weight[row]),
                "loss": _number(losses.loss[row]),
                "gradient": _number(losses.gradient[row]),
                "not_finite": list(losses.faults[row]),
            }
            for row in range(rows.count)
        ],
    }
    print(json.dumps(found, allow_nan=False))
    return 0


def _number(value: float) -> float | str:
    """JSON has no number for infinity and NaN."""
    return float(value) if abs(value) < float("inf") else str(float(value))
