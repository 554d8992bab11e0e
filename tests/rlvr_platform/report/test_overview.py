import pytest

from rlvr_platform.report.overview import header, headline
from rlvr_platform.report.run_data import read_run, status


def text(parse, markup):
    return parse(markup).text


def test_the_header_names_the_run_its_status_and_its_folder(new_run, parse):
    run = new_run("name=night-run")
    data = read_run(run.path)
    words = text(parse, header(data, status(data)))
    assert "night-run" in words
    assert "no step recorded" in words
    assert str(run.path) in words
    assert data.manifest["started_at"] in words


def test_accuracy_is_told_before_and_after_with_intervals(new_run, parse):
    run = new_run()
    run.steps(0, 10)
    for step, value in ((0, 0.234), (5, 0.4), (10, 0.572)):
        run.evaluated(step, value)
    words = text(parse, headline(read_run(run.path)))
    assert "heldout avg@2" in words
    assert "23.4 % → 57.2 %" in words
    assert "+33.8 points from step 0 to step 10" in words
    assert "19.4 to 29.4 and 53.2 to 63.2" in words


def test_one_evaluation_is_not_made_a_gain(new_run, parse):
    run = new_run()
    run.evaluated(0, 0.25)
    words = text(parse, headline(read_run(run.path)))
    assert "25.0 %95 % interval 21.0 to 31.0, measured at step 0 only" in words
    assert "→" not in words


def test_the_tiles_hold_the_totals_of_the_run(new_run, parse):
    run = new_run()
    for step in range(1, 41):
        reward = 0.25 if step <= 20 else 0.75
        tokens = {"tokens/generated": 100, "tokens/wasted": 25}
        rollouts = {"rollouts/generated": 16, "rollouts/trained": 8}
        more = {"time/step": 2.0, "sync/probe_max_abs_diff": 1e-6 * step}
        run.metrics.write({"step": step, "reward/mean": reward, **tokens, **rollouts, **more})
    words = text(parse, headline(read_run(run.path)))
    assert "0.25 → 0.75mean of the first and of the last 10 steps" in words
    assert "50.0 %of 640 rollouts generated carried gradient" in words
    assert "25.0 %1,000 of 4,000 tokens generated" in words
    assert "1 min 20 s2 s a step, 50 tokens generated a second" in words
    assert "4e-05 nats" in words


@pytest.mark.parametrize("records", [[], [{"step": 0}], [{"step": 1, "tokens/wasted": 3}]])
def test_what_was_not_measured_has_no_tile(new_run, parse, records):
    run = new_run()
    for record in records:
        run.metrics.write(record)
    assert text(parse, headline(read_run(run.path))) == ""
