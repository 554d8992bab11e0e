"""The whole page: everything in one file, nothing loaded, no script."""

from __future__ import annotations

from pathlib import Path

from rlvr_platform.files import write_atomic
from rlvr_platform.report.html import Html, el, join
from rlvr_platform.report.overview import header, headline
from rlvr_platform.report.record import config_section, events_section, machine_section
from rlvr_platform.report.rollout_examples import examples_section
from rlvr_platform.report.run_data import RunData, read_run, status
from rlvr_platform.report.sections import TOPICS, metric_sections
from rlvr_platform.report.style import STYLE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A second lock behind the escaping: a browser runs and loads nothing from this page."""
_HOW_TO_READ = (
    "Charts run over training steps. Where a point stands for several steps, the line is their "
    "mean and the band reaches from the least to the greatest; the band of an eval/SUITE/avg@k is "
    "its 95 % interval over prompts. Rest the pointer on a chart to read its numbers."
)
_LINKS = (
    *((topic.anchor, topic.title) for topic in TOPICS),
    ("rollouts", "Rollouts"),
    ("events", "Events"),
    ("config", "config.yaml"),
    ("machine", "Versions and hardware"),
)


def build_report(run: Path) -> str:
    """The report on the run in folder `run`, as HTML.

    Raises InputError when there is no run, or when its metrics or events are damaged.
    """
    data = read_run(run)
    page = el("html", _head(data), _body(data), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def write_report(run: Path, out: Path) -> None:
    """Write the report on `run` to `out`, whole or not at all.

    Raises InputError as `build_report` does, and when `out` cannot be written.
    """
    write_atomic(out, build_report(run))


def _head(run: RunData) -> Html:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{run.name}: report"),
        el("style", Html(STYLE)),
    )


def _body(run: RunData) -> Html:
    links = join((el("a", title, href=f"#{anchor}") for anchor, title in _LINKS), " ")
    return el(
        "body",
        header(run, status(run)),
        el("nav", links),
        headline(run),
        el("p", _HOW_TO_READ, class_="quiet"),
        *metric_sections(run),
        examples_section(run.folder),
        events_section(run),
        config_section(run),
        machine_section(run),
    )
