import json
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlvr_platform.config import load_config
from rlvr_platform.errors import InputError
from rlvr_platform.report import build_report, write_report
from rlvr_platform.report.style import STYLE
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.names import METRICS

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "configs/dev/arithmetic.yaml"
NAMES = [m.name for m in METRICS if m.name != "step"]
NAMES += ["allocation/prompts@3", "allocation/prompts@12", "eval/a/avg@2", "eval/b/pass@1"]
EXTERNAL = re.compile(r"^\s*([a-z]+:|//)", re.IGNORECASE)


@pytest.fixture
def whole(new_run):
    """A finished run with everything there is."""
    run = new_run()
    run.steps(0, 10)
    run.evaluated(0, 0.25)
    run.evaluated(10, 0.5)
    run.event("checkpoint", step=10, seconds=0.1, removed=[])
    run.rollouts(1, [("1+1=", [("2", 1.0), ("3", 0.0)])])
    run.rollouts(10, [("see http://example.com/a", [("<a href=http://example.com>", 1.0)])])
    return run


def test_a_page_is_well_formed_and_loads_nothing(whole, parse):
    page = parse(build_report(whole.path))
    assert page.tags[0] == "html"
    loaded = [a for a in page.attributes if a[1] in ("src", "href", "action", "data", "srcset")]
    assert loaded
    assert not [a for a in loaded if EXTERNAL.match(a[2])]
    assert not {"script", "img", "iframe", "link", "object", "embed", "form"} & set(page.tags)
    assert not [a for a in page.attributes if a[1].startswith("on")]
    assert "url(" not in STYLE and "@import" not in STYLE
    policy = [a[2] for a in page.attributes if a[1] == "content" and "default-src" in a[2]]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_every_link_leads_to_a_section_of_the_page(whole, parse):
    page = parse(build_report(whole.path))
    targets = [value.removeprefix("#") for _, name, value in page.attributes if name == "href"]
    assert len(targets) >= 6
    assert set(targets) <= page.ids


def test_every_metric_of_the_run_appears(whole, parse):
    page = parse(build_report(whole.path))
    for name in json.loads(whole.folder.metrics.read_text().splitlines()[0]):
        assert name in page.text


def test_the_style_has_a_light_a_dark_and_a_printed_form():
    assert "@media screen and (prefers-color-scheme: dark)" in STYLE
    assert "@media print" in STYLE
    assert STYLE.count("{") == STYLE.count("}")
    used, known = set(re.findall(r"var\((--\w+)\)", STYLE)), set(re.findall(r"(--\w+):", STYLE))
    assert used == known


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_run_at_its_very_start_has_a_page(new_run, parse, steps):
    run = new_run()
    if steps:
        run.steps(0, steps - 1)
    page = parse(build_report(run.path))
    assert f"step {max(0, steps - 1)} of 10" in page.text
    assert ("svg" in page.tags) == bool(steps)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.none() | st.floats(0, 9)), max_size=4))
def test_any_subset_of_the_metrics_has_a_page(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("runs") / "run"
    RunFolder.create(path, load_config(EXAMPLE), min_free_bytes=0).close()
    records = [{**line, "step": step} for step, line in enumerate(lines)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    page = build_report(path)
    for name, value in (pair for line in lines for pair in line.items()):
        assert value is None or f"<code>{name}</code>" in page


def test_a_folder_with_nothing_but_a_configuration_has_a_page(new_run, parse):
    run = new_run()
    for path in (run.folder.metrics, run.folder.events, run.folder.manifest):
        path.unlink()
    page = parse(build_report(run.path))
    assert "no step recorded: step 0 of 10" in page.text
    assert {value[1:] for _, name, value in page.attributes if name == "href"} <= page.ids


def test_a_torn_last_line_does_not_spoil_the_page(whole, parse):
    with open(whole.folder.metrics, "ab") as file:
        file.write(b'{"step": 11, "reward/me')
    assert "finished: step 10 of 10" in parse(build_report(whole.path)).text


def test_an_interrupted_run_says_where(new_run, parse):
    run = new_run()
    run.steps(0, 4)
    run.event("interrupted")
    assert "interrupted at step 4 of 10" in parse(build_report(run.path)).text


def test_hostile_text_anywhere_stays_text(new_run, parse):
    run = new_run()
    evil = '"><script>alert(1)</script>\ud800'
    run.events.write(evil, **{evil: evil})
    run.evaluated(0, 0.5, suite=evil)
    run.rollouts(1, [("<svg onload=alert(1)>", [("</table><style>", 1.0)])])
    run.folder.config.write_text("steps: '</pre><script>'")
    run.folder.manifest.write_text(json.dumps({"started_at": evil, evil: {evil: evil}}))
    run.folder.metrics.write_text(json.dumps({"step": 0, "<script>/x": 1.0}) + "\n")
    text = build_report(run.path)
    text.encode("utf-8")
    page = parse(text)
    assert "script" not in page.tags
    assert page.tags.count("style") == 1
    assert not [a for a in page.attributes if a[1].startswith("on")]


def test_ten_thousand_steps_stay_small_and_quick(new_run):
    run = new_run("steps=10000")
    run.steps(0, 1)
    kinds = [line.partition(", ")[2] for line in run.folder.metrics.read_text().splitlines()]
    lines = [f'{{"step": {step}, {kinds[step % 2]}\n' for step in range(10_001)]
    run.folder.metrics.write_text("".join(lines))
    began = time.process_time()
    page = build_report(run.path)
    assert time.process_time() - began < 2.0
    assert len(page.encode()) < 2_000_000
    assert "finished: step 10000 of 10000" in page


def test_a_report_replaces_an_older_one_whole(whole):
    out = whole.path / "report.html"
    out.write_text("old")
    write_report(whole.path, out)
    assert out.read_text(encoding="utf-8") == build_report(whole.path)
    assert not list(whole.path.glob(".report*"))


def test_a_report_of_what_is_no_run_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        write_report(tmp_path, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_says_where(whole, tmp_path):
    with pytest.raises(InputError, match="cannot write"):
        write_report(whole.path, tmp_path / "absent" / "report.html")


def test_importing_the_report_needs_neither_torch_nor_ray():
    program = (
        "import sys, rlvr_platform.report;"
        "print([m for m in ('torch', 'ray', 'vllm', 'deepspeed') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_a_report_does_not_change_the_run(whole):
    before = {p: (p.stat().st_mtime_ns, stat.S_IMODE(p.stat().st_mode)) for p in files(whole)}
    build_report(whole.path)
    assert before == {
        p: (p.stat().st_mtime_ns, stat.S_IMODE(p.stat().st_mode)) for p in files(whole)
    }


def files(run):
    return sorted(run.path.rglob("*"))
