import re

from rlvr_platform.report.run_data import read_run
from rlvr_platform.report.sections import (
    TOPICS,
    health,
    ledgers,
    metric_sections,
    names_of,
    time_table,
)
from rlvr_platform.telemetry.names import METRICS


def lines(run, **metrics):
    """Three steps with the same values; double underscores stand for slashes."""
    record = {name.replace("__", "/"): value for name, value in metrics.items()}
    for step in range(1, 4):
        run.metrics.write({"step": step} | record)
    return read_run(run.path)


def rows(table):
    """The text of every cell, row by row."""
    found = re.findall("<tr>(.*?)</tr>", table)
    return [re.sub("<[^>]*>", "|", row) for row in found]


def test_every_metric_belongs_to_exactly_one_topic():
    names = [m.name for m in METRICS] + ["eval/a/avg@2", "brand/new", "plain"]
    claimed = [name for topic in TOPICS for name in names_of(topic, names)]
    assert sorted(claimed) == sorted(names)


def test_all_metrics_of_a_run_are_shown_once(new_run):
    run = new_run()
    run.steps(0, 3)
    data = read_run(run.path)
    figures = re.findall("(?s)<figure>.*?</figure>", "".join(metric_sections(data)))
    shown = [name for figure in figures for name in re.findall("<code>(.*?)</code>", figure)]
    assert sorted(shown) == sorted([*data.series, "rows with signal", "throughput"])


def test_a_run_without_steps_has_a_word_instead_of_charts(new_run):
    found = metric_sections(read_run(new_run().path))
    assert len(found) == len(TOPICS)
    assert all("Nothing recorded yet." in part for part in found)
    assert not any("<svg" in part or "phase" in part for part in found)


def test_the_time_table_adds_up_the_run(new_run):
    run = new_run()
    data = lines(run, time__step=2.0, time__learn=0.5, time__evaluate=7.0, time__idle_learner=1.0)
    step, learn, idle, evaluate = rows(time_table(data))[1:]
    assert "time/step" in step and "100.0 %" in step and "6 s" in step
    assert "part of the step" in learn and "25.0 %" in learn and "1.5 s" in learn
    assert "waiting, inside the step" in idle and "50.0 %" in idle
    assert "outside the step" in evaluate and "21 s" in evaluate


def test_the_ledgers_share_out_what_was_generated(new_run):
    data = lines(
        new_run(), tokens__generated=100, tokens__wasted=40, verdict__correct=3, verdict__wrong=1
    )
    tokens, rollouts, verdicts = ledgers(data)
    assert [row for row in rows(tokens) if "wasted" in row and "40.0 %" in row and "120" in row]
    assert rollouts == ""
    assert [row for row in rows(verdicts) if "correct" in row and "75.0 %" in row and "9" in row]


def test_the_proof_of_delivery_names_the_worst_sync_and_the_limit(new_run):
    run = new_run("sync.probe_tolerance=0.25")
    for step, worst in ((1, 1e-6), (2, 3e-5), (3, 2e-6)):
        run.metrics.write({"step": step, "sync/probe_max_abs_diff": worst})
    found = dict(health(read_run(run.path)))
    assert "3 updates proven" in found["weights delivered"]
    assert "3e-05 nats, at step 2" in found["weights delivered"]
    assert found["allowed difference"].startswith("0.25 nats")


def test_health_counts_what_went_wrong(new_run):
    run = new_run()
    run.event("failed", error="x")
    run.event("checkpoint_damaged", reason="x")
    run.event("resumed", step=0, version=0)
    run.event("resumed", step=0, version=0)
    data = lines(run, rollouts__invalid=2, rollouts__generated=8, lag__max=3)
    found = dict(health(data))
    assert found["errors that ended the run"] == 1
    assert found["times it was resumed"] == 2
    assert found["damaged checkpoints passed over"] == 1
    assert found["rollouts without a verdict"] == "6 of 24 (25.0 %)"
    assert found["largest lag"].startswith("3 versions; rollout.max_lag is ")


def test_health_leaves_out_what_was_not_measured(new_run):
    found = dict(health(read_run(new_run().path)))
    assert not {"weights delivered", "largest lag", "rollouts without a verdict"} & set(found)
