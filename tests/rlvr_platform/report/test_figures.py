import re

import pytest

from rlvr_platform.report.figures import figures, phases, worked_out
from rlvr_platform.report.run_data import read_run
from rlvr_platform.telemetry.names import METRICS


@pytest.fixture
def data(new_run):
    run = new_run()
    run.steps(0, 3)
    return read_run(run.path)


def titles(found):
    return [re.search("<h3>(.*?)</h3>", figure)[1] for figure in found]


def test_every_metric_is_in_exactly_one_figure_with_its_meaning(data, parse):
    page = parse("".join(figures(data, data.series)))
    labels = re.findall(r"<code>(.*?)</code>", "".join(figures(data, data.series)))
    assert sorted(labels) == sorted(data.series)
    for metric in METRICS:
        if metric.name != "step":
            assert metric.meaning in page.text


def test_a_legend_shows_the_numbers_of_the_file(data, expected):
    (figure,) = figures(data, ["grad/norm"])
    values = [expected("grad/norm", step) for step in range(4)]
    assert f"first {values[0]:.4g}, last {values[-1]:.4g}" in figure
    assert f"least {min(values):.4g}, greatest {max(values):.4g}" in figure


def test_siblings_share_a_chart_only_when_their_units_agree(data):
    found = titles(figures(data, ["acr/group", "acr/rollout", "policy/entropy", "loss/policy"]))
    assert sorted(found) == ["acr (share)", "loss/policy (nats)", "policy/entropy (nats)"]


def test_fates_are_stacked_below_what_was_generated(data, expected):
    names = [n for n in data.series if n.startswith("rollouts/") and n != "rollouts/replayed"]
    (figure,) = figures(data, names)
    assert figure.count('class="area') == len(names) - 1
    assert len(re.findall('<path [^>]*class="over"', figure)) == 1
    total = sum(expected("rollouts/generated", step) for step in range(4))
    assert f"<code>rollouts/generated</code> total {total:.4g}" in figure


def test_phases_are_parts_of_a_step_and_nothing_else():
    names = ["time/step", "time/learn", "time/idle_learner", "time/evaluate", "time/new_phase"]
    assert phases([*names, "tokens/trained"]) == ["time/learn", "time/new_phase"]


def test_a_histogram_is_stacked_in_the_order_of_its_numbers_and_explained_once(new_run):
    run = new_run()
    for step in range(3):
        lines = {f"allocation/prompts@{k}": 1.0 + k for k in (16, 2, 8)}
        run.metrics._sinks[0].write({"step": step} | lines)
    (figure,) = figures(read_run(run.path), lines)
    order = re.findall(r"<code>allocation/prompts@(\d+)</code>", figure)
    assert order == ["2", "8", "16"]
    assert figure.count('class="area') == 3
    assert figure.count('class="quiet"') == 1


def test_an_accuracy_has_the_interval_of_its_evaluation(new_run):
    run = new_run()
    for step, value in ((0, 0.25), (1, 0.5)):
        run.metrics.write({"step": step, "eval/heldout/avg@2": value})
        run.evaluated(step, value)
    (figure,) = figures(read_run(run.path), ["eval/heldout/avg@2"])
    assert "eval/heldout/avg@2 0.25 (0.21 to 0.31)" in figure
    assert "eval/heldout/avg@2 0.5 (0.46 to 0.56)" in figure
    assert 'class="band"' in figure


def test_signal_and_throughput_are_worked_out_from_the_record(new_run):
    run = new_run()
    run.metrics.write({"step": 0})
    run.metrics.write({"step": 1, "rollouts/generated": 8, "rollouts/trained": 6})
    run.metrics.write({"step": 2, "tokens/generated": 300, "time/step": 2.0})
    found = worked_out(read_run(run.path))
    signal, pace = found["rows with signal"].series, found["throughput"].series
    assert (signal.steps.tolist(), signal.values.tolist()) == ([1], [0.75])
    assert (pace.steps.tolist(), pace.values.tolist()) == ([2], [150.0])


def test_what_cannot_be_worked_out_is_absent(new_run):
    run = new_run()
    run.metrics.write({"step": 0})
    assert worked_out(read_run(run.path)) == {}
