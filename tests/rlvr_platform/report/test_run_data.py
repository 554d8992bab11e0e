import json

import pytest

from rlvr_platform.config import ExperimentConfig
from rlvr_platform.errors import ConfigError, InputError
from rlvr_platform.report.run_data import evaluations, read_run, status


def test_a_run_that_reached_its_last_step_is_finished(new_run):
    run = new_run()
    run.steps(0, 10)
    assert status(read_run(run.path)).state == "finished"
    assert status(read_run(run.path)).text == "finished: step 10 of 10"


def test_a_run_that_has_not_ended_says_where_it_is(new_run):
    run = new_run()
    run.event("started")
    run.steps(0, 4)
    found = status(read_run(run.path))
    assert found.state == "stopped"
    assert found.text == "at step 4 of 10: still running when this was written, or killed"


def test_an_interrupted_run_says_how_to_go_on(new_run):
    run = new_run()
    run.event("started")
    run.steps(0, 4)
    run.event("interrupted")
    found = status(read_run(run.path))
    assert found.text == "interrupted at step 4 of 10; `--resume` goes on from there"


def test_a_run_before_its_first_step_says_so(new_run):
    data = read_run(new_run().path)
    assert (data.last_step, data.series, data.events) == (0, {}, [])
    assert status(data).text == "no step recorded: step 0 of 10"


def test_an_error_that_ended_the_run_is_told(new_run):
    run = new_run()
    run.steps(0, 4)
    run.event("actor_failed", traceback="Traceback: x")
    run.event("failed", error="it broke")
    found = status(read_run(run.path))
    assert found.state == "failed"
    assert found.text == "stopped by an error at step 4 of 10: it broke"


def test_an_error_that_a_new_start_came_after_is_history(new_run):
    run = new_run()
    run.event("failed", error="it broke")
    run.event("started")
    run.steps(0, 10)
    assert status(read_run(run.path)).state == "finished"


def test_evaluations_are_ordered_and_those_set_aside_by_a_resume_are_left_out(new_run):
    run = new_run()
    run.steps(0, 6)
    for step, value in ((0, 0.2), (4, 0.5), (8, 0.9), (4, 0.6)):
        run.evaluated(step, value)
    run.evaluated(0, 0.3, suite="other avg@1")
    found = evaluations(read_run(run.path))
    assert list(found) == ["heldout avg@2", "other avg@1"]
    assert [(e.step, e.estimate.value) for e in found["heldout avg@2"]] == [(0, 0.2), (4, 0.6)]


def test_an_event_that_lacks_its_interval_is_no_evaluation(new_run):
    run = new_run()
    run.event("evaluated", step=0, suite="heldout avg@2", value=0.5)
    assert evaluations(read_run(run.path)) == {}


def test_a_torn_last_line_is_left_out(new_run):
    run = new_run()
    run.steps(0, 4)
    with open(run.folder.metrics, "ab") as file:
        file.write(b'{"step": 5, "rew')
    assert read_run(run.path).last_step == 4


def test_a_damaged_line_elsewhere_is_refused_by_its_number(new_run):
    run = new_run()
    run.steps(0, 1)
    with open(run.folder.metrics, "ab") as file:
        file.write(b"{oops\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl:3 is not JSON"):
        read_run(run.path)


@pytest.mark.parametrize("name", ["absent", "", "a file"])
def test_what_holds_no_run_is_refused(tmp_path, name):
    (tmp_path / "a file").write_text("")
    with pytest.raises(InputError, match="holds no run: cannot read config"):
        read_run(tmp_path / name)


def test_a_configuration_of_another_version_does_not_hide_the_run(new_run):
    run = new_run()
    run.steps(0, 4)
    run.folder.config.write_text("steps: 10\nnonsense: 1\n")
    data = read_run(run.path)
    assert isinstance(data.config, ConfigError)
    assert data.name == run.path.name
    assert "nonsense" in data.config_text
    assert "step 4" in status(data).text


@pytest.mark.parametrize("content", [None, "{torn", "[1]"])
def test_a_manifest_that_cannot_be_read_is_empty(new_run, content):
    run = new_run()
    run.folder.manifest.unlink()
    if content is not None:
        run.folder.manifest.write_text(content)
    assert read_run(run.path).manifest == {}


def test_what_is_there_is_read(new_run):
    run = new_run("name=my-run")
    data = read_run(run.path)
    assert isinstance(data.config, ExperimentConfig)
    assert data.name == "my-run"
    assert data.manifest == json.loads(run.folder.manifest.read_text())
