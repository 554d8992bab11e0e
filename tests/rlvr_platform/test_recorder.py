import io
import json
from pathlib import Path

import numpy as np
import pytest

from rlvr_platform.config import load_config
from rlvr_platform.evaluation.estimators import Estimate
from rlvr_platform.evaluation.suites import SuiteResult
from rlvr_platform.recorder import (
    Recorder,
    TimedAllocation,
    Update,
    allocation_metrics,
    group_metrics,
    update_metrics,
    with_overhead,
)
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry import names
from rlvr_platform.telemetry.live import LiveView
from rlvr_platform.types import (
    Allocation,
    GradedGroup,
    GroupSummary,
    LearnerReport,
    LoadReport,
    Observation,
    Outcome,
    Verdict,
    WeightSnapshot,
)

CONFIG = load_config(Path(__file__).parents[2] / "configs/dev/arithmetic.yaml")


def graded(size: int, seconds: float, verify_seconds: float) -> GradedGroup:
    ones = np.ones(size, np.int32)
    summary = GroupSummary(0, 1, 0, 1, ones, ones, ones, ones, seconds, 1)
    verdict = Verdict(Outcome.CORRECT, 1.0, "", "", verify_seconds)
    return GradedGroup(summary, (verdict,) * size, None)


def test_generation_takes_as_long_as_its_slowest_group_and_verdicts_share_the_workers() -> None:
    metrics = group_metrics([graded(2, 0.5, 0.1), graded(4, 0.3, 0.1)], pool_workers=3)
    assert metrics["time/generate"] == 0.5
    assert metrics["time/verify"] == pytest.approx(0.6 / 3)


def allocation_of(counts: list[int], p: float, baseline: float, fallback: str = "") -> Allocation:
    size = len(counts)
    predicted, moving = np.full(size, p), np.full(size, baseline)
    return Allocation(np.array(counts), predicted, moving, 0.25, fallback)


def test_an_allocation_is_counted_and_its_predictions_are_judged() -> None:
    """Of 8 rollouts 4 succeed: p = 0.5 scores 0.25, p = 0 scores 0.5."""
    seen = Observation(np.arange(2), np.array([1.0, 3.0]), np.array([2, 6]), np.array([9, 9]))
    made = TimedAllocation(allocation_of([2, 6], 0.5, 0.0), 0.01)
    metrics = allocation_metrics([made], seen)
    names.check({"step": 1, **metrics})
    assert metrics == {
        "time/allocate": 0.01,
        "allocation/min": 2.0,
        "allocation/max": 6.0,
        "allocation/prompts@2": 1.0,
        "allocation/prompts@6": 1.0,
        "allocation/fallback": 0.0,
        "allocation/predicted_mean": 0.5,
        "allocation/observed_mean": 0.5,
        "allocation/brier": 0.25,
        "allocation/brier_moving_average": 0.5,
        "acr/effective": 0.25,
    }
    failed = TimedAllocation(allocation_of([4, 4], 0.5, 0.5, "no convergence"), 0.01)
    assert allocation_metrics([failed], seen)["allocation/fallback"] == 1.0


def test_without_a_predictor_nothing_is_claimed_of_it() -> None:
    seen = Observation(np.arange(2), np.zeros(2), np.array([4, 4]), np.array([9, 9]))
    made = TimedAllocation(allocation_of([4, 4], np.nan, np.nan), 0.01)
    assert set(allocation_metrics([made], seen)) == {
        "time/allocate",
        "allocation/min",
        "allocation/max",
        "allocation/prompts@4",
    }


def test_overhead_is_what_no_actor_accounts_for() -> None:
    record = {"time/step": 1.0, "time/generate": 0.4, "time/learn": 0.3, "time/sync": 0.1}
    assert with_overhead(record)["time/overhead"] == pytest.approx(0.2)
    assert with_overhead({**record, "time/generate": 2.0})["time/overhead"] == 0.0


def test_every_metric_of_an_update_is_a_registered_name() -> None:
    report = LearnerReport(0.1, 1.0, 1e-4, 1.0, 0.0, 0.0, 0.0, 0.0, 9, 1, 1, 0, (), 0.2)
    snapshot = WeightSnapshot(1, (), 10, np.zeros(2), np.zeros(2), 0.05)
    metrics = update_metrics(Update(report, snapshot, LoadReport(1e-7, 0.03)))
    names.check({"step": 1, **metrics})
    assert metrics["time/sync"] == pytest.approx(0.08)


def test_the_closing_words_compare_the_first_evaluation_with_the_last(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG, min_free_bytes=0)
    out = io.StringIO()
    recorder = Recorder(run, CONFIG, LiveView(CONFIG.steps, out=out))
    for step, value in ((0, 0.25), (10, 0.4), (20, 0.75)):
        estimate = Estimate(value, value - 0.1, value + 0.1)
        result = SuiteResult("heldout", 2, estimate, {"eval/heldout/avg@2": value})
        assert recorder.evaluated(step, [result]) == {"eval/heldout/avg@2": value}
    recorder.finish(20)
    recorder.close()
    assert "+50.0 points" in out.getvalue()
    events = [json.loads(line) for line in run.events.read_text().splitlines()]
    assert [event["value"] for event in events] == [0.25, 0.4, 0.75]
