"""The harness's checks fail when they should."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.checks import bounds, ledger, steps_once

FILES: dict[int, list[dict[str, Any]]] = {
    1: [
        {"step": 1, "group_id": 8, "sibling": 0, "fate": "TRAINED"},
        {"step": 1, "group_id": 8, "sibling": 1, "fate": "TRAINED"},
        {"step": 1, "group_id": 9, "sibling": 0, "fate": "DROPPED_NO_SIGNAL"},
    ],
    2: [
        {"step": 2, "group_id": 16, "sibling": 0, "fate": "INVALID"},
        {"step": 1, "group_id": 8, "sibling": 1, "fate": "REPLAYED"},
    ],
}
METRICS = [
    {"step": 1, "rollouts/generated": 3, "rollouts/trained": 2, "rollouts/dropped": 1},
    {"step": 2, "rollouts/generated": 1, "rollouts/invalid": 1, "rollouts/replayed": 1},
]


def changed(of: int, place: int, **fields: Any) -> dict[int, list[dict[str, Any]]]:
    rows = {number: [dict(row) for row in found] for number, found in FILES.items()}
    rows[of][place] |= fields
    return rows


def test_a_sound_run_has_no_problem() -> None:
    assert ledger(METRICS, FILES) == []
    assert steps_once([{"step": 0}, {"step": 1, "optimizer_steps": 1}], steps=1) == []
    assert bounds([{"step": 1, "lag/max": 1, "sync/probe_max_abs_diff": 1e-6}], max_lag=1) == []


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (changed(1, 1, sibling=0), "8/0 twice"),
        (changed(1, 1, sibling=2), "only the siblings"),
        (changed(1, 0, fate="RESCUED"), "trained in the file"),
        (changed(1, 0, fate="LOST"), "counted nowhere"),
        (changed(2, 0, step=1), "is of step 1"),
        (changed(2, 0, group_id=9), "also in step 1"),
        (changed(2, 1, group_id=7), "of no earlier step"),
        (changed(2, 1, fate="TRAINED"), "generated in the file"),
    ],
)
def test_a_ledger_that_does_not_add_up_is_found(
    rows: dict[int, list[dict[str, Any]]], problem: str
) -> None:
    assert any(problem in found for found in ledger(METRICS, rows))


@pytest.mark.parametrize("steps", [[0, 1, 1, 2], [0, 2], [0, 1], [0, 2, 1]])
def test_a_step_that_is_lost_or_counted_twice_is_found(steps: list[int]) -> None:
    assert steps_once([{"step": step} for step in steps], steps=2)


def test_an_update_that_is_made_twice_is_found() -> None:
    records = [{"step": 0}, *({"step": s, "optimizer_steps": n} for s, n in ((1, 1), (2, 3)))]
    assert steps_once(records, steps=2)


@pytest.mark.parametrize("broken", [{"lag/max": 2}, {"sync/probe_max_abs_diff": 0.1}])
def test_a_bound_that_is_broken_is_found(broken: dict[str, float]) -> None:
    assert bounds([{"step": 3, **broken}], max_lag=1)
