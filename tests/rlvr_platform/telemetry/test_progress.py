from pathlib import Path

import pytest

from rlvr_platform.evaluation.estimators import Estimate
from rlvr_platform.telemetry.progress import (
    ProgressTracker,
    RunSummary,
    duration,
    plain_line,
    summary_lines,
)

RECORD = {
    "step": 40,
    "reward/mean": 0.5,
    "rollouts/trained": 55,
    "rollouts/generated": 128,
    "acr/group": 0.5625,
    "tokens/generated": 700,
    "time/step": 0.5,
    "time/generate": 0.2,
    "time/verify": 0.05,
    "time/learn": 0.15,
    "time/sync": 0.05,
    "lag/max": 1,
}


def test_shares_speed_and_phases_follow_from_the_record():
    progress = ProgressTracker(100).update(RECORD)
    assert progress.learning_share == pytest.approx(55 / 128)
    assert progress.tokens_per_second == pytest.approx(1400)
    assert sum(progress.phases.values()) == pytest.approx(0.5)
    assert progress.phases["other"] == pytest.approx(0.05)


def test_phases_that_overlap_leave_no_negative_rest():
    progress = ProgressTracker(100).update(RECORD | {"time/generate": 0.5})
    assert progress.phases["other"] == 0


def test_the_remaining_time_is_steps_left_at_the_pace_with_its_pauses():
    tracker = ProgressTracker(100)
    assert tracker.update(RECORD).remaining_seconds == pytest.approx(60 * 0.5)
    slower = tracker.update(RECORD | {"step": 41, "time/evaluate": 10.0}).remaining_seconds
    assert slower == pytest.approx(59 * (0.9 * 0.5 + 0.1 * 10.5))
    assert tracker.update(RECORD | {"step": 100}).remaining_seconds == 0


def test_the_last_evaluation_stays_on_the_screen():
    tracker = ProgressTracker(100)
    tracker.update({"step": 0, "eval/a/avg@2": 0.25, "eval/a/pass@2": 0.4, "eval/b/avg@1": 0.5})
    tracker.update({"step": 1, "eval/a/avg@2": 0.75})
    assert tracker.update(RECORD).evaluations == {"a avg@2": 0.75, "b avg@1": 0.5}


def test_a_record_of_an_evaluation_alone_is_shown_without_gaps():
    line = plain_line(ProgressTracker(100).update({"step": 0, "eval/a/avg@2": 0.25}))
    assert line == "step 0/100 | a avg@2 25.0 %"


def test_nothing_generated_is_no_share():
    progress = ProgressTracker(9).update(
        {"step": 1, "rollouts/trained": 0, "rollouts/generated": 0}
    )
    assert progress.learning_share is None


def test_the_plain_line_says_what_a_step_did():
    line = plain_line(ProgressTracker(100).update(RECORD))
    for part in ("step 40/100", "reward 0.500", "learning from 43 % of rollouts", "ACR 0.56"):
        assert part in line
    assert "1,400 tokens/s" in line
    assert line.endswith("30 s left")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3599, "59 min 59 s"), (7500, "2 h 05 min")],
)
def test_durations_are_readable(seconds, text):
    assert duration(seconds) == text


def summary(folder: Path, step: int, after: dict[str, Estimate]) -> str:
    before = {"heldout avg@2": Estimate(0.3, 0.25, 0.35)}
    return "\n".join(summary_lines(RunSummary(folder, step, 100, before, after)))


def test_the_summary_says_the_gain_and_where_to_look(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    text = summary(tmp_path, 100, {"heldout avg@2": Estimate(0.605, 0.55, 0.66)})
    assert "step 100 of 100: finished" in text
    assert "30.0 % (95 % interval 25.0 to 35.0) -> 60.5 % (95 % interval 55.0 to 66.0)" in text
    assert "+30.5 points" in text
    assert str(tmp_path / "metrics.jsonl") in text
    assert f"tensorboard --logdir {tmp_path / 'tensorboard'}" in text


def test_the_summary_of_a_stopped_run_tells_how_to_go_on(tmp_path):
    text = summary(tmp_path, 40, {})
    assert "--resume" in text
    assert "30.0 % (95 % interval 25.0 to 35.0) before training" in text
    assert "tensorboard" not in text
