import json

from rlvr_platform.report.record import (
    MOST_EVENTS,
    config_section,
    events_section,
    machine_section,
)
from rlvr_platform.report.run_data import read_run


def test_unusual_events_stand_open_and_routine_ones_are_folded(new_run, parse):
    run = new_run()
    run.event("checkpoint", step=5, seconds=0.1, removed=["step-000001"])
    run.event("verifier_restarted", worker=3)
    section = events_section(read_run(run.path))
    words = parse(section).text
    assert words.index("worker: 3") < words.index("1 routine events") < words.index("step-000001")


def test_events_are_counted_by_kind_and_only_the_newest_are_listed(new_run, parse):
    run = new_run()
    for number in range(MOST_EVENTS + 7):
        run.event("timeout", number=number)
    words = parse(events_section(read_run(run.path))).text
    assert str(MOST_EVENTS + 7) in words
    assert "7 earlier ones are in events.jsonl." in words
    assert "number: 7;" in words
    assert "number: 6;" not in words


def test_a_traceback_keeps_its_lines_and_is_escaped(new_run, parse):
    run = new_run()
    run.event("actor_failed", traceback="File <stdin>\n  raise <script>")
    section = events_section(read_run(run.path))
    page = parse(section)
    assert "script" not in page.tags
    assert "File <stdin>\n  raise <script>" in page.text


def test_no_events_are_said_to_be_none(new_run):
    assert "No event recorded." in events_section(read_run(new_run().path))


def test_the_configuration_shows_what_differs_and_the_whole_file(new_run, parse):
    run = new_run("rollout.max_new_tokens=17", "seed=41")
    words = parse(config_section(read_run(run.path))).text
    assert "rollout.max_new_tokens17" in words
    assert "seed41" in words
    assert run.folder.config.read_text() in words


def test_a_configuration_that_cannot_be_read_is_shown_with_the_reason(new_run, parse):
    run = new_run()
    run.folder.config.write_text("steps: 10\nnonsense: <b>\n")
    page = parse(config_section(read_run(run.path)))
    assert "nonsense: unknown key" in page.text
    assert "nonsense: <b>" in page.text
    assert "b" not in page.tags


def test_versions_hardware_and_every_resume_are_shown(new_run, parse):
    run = new_run()
    manifest = json.loads(run.folder.manifest.read_text())
    again = manifest | {"python": "9.9.9", "changed": {"steps": {"from": 10, "to": 20}}}
    run.folder.manifest.write_text(json.dumps(manifest | {"resumes": [again]}))
    run.event("memory", learner=2**30, engine=2**31)
    words = parse(machine_section(read_run(run.path))).text
    assert manifest["packages"]["numpy"] in words
    assert manifest["platform"] in words
    assert "9.9.9" in words
    assert '{"from": 10, "to": 20}' in words
    assert "learner1.00 GiBengine2.00 GiB" in words


def test_a_missing_manifest_is_said_to_be_missing(new_run):
    run = new_run()
    run.folder.manifest.unlink()
    assert "manifest.json is missing" in machine_section(read_run(run.path))
