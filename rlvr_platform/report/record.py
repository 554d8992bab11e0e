"""What is on record beside the metrics: events, configuration, versions, hardware."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from rlvr_platform.config import ExperimentConfig
from rlvr_platform.config_diff import differences
from rlvr_platform.report.html import Html, el, join
from rlvr_platform.report.numbers import gibibytes
from rlvr_platform.report.run_data import RunData
from rlvr_platform.report.sections import section
from rlvr_platform.report.tables import code, facts, folded, table, text_block

MOST_EVENTS = 200
"""Events shown of the routine ones and of the others; the newest."""
MOST_CHARACTERS = 4000
ROUTINE = frozenset({"checkpoint", "evaluated", "memory", "role_started"})
"""Kinds of events that every healthy run has."""


def events_section(run: RunData) -> Html:
    """A count of each kind, then the events: unusual ones open, routine ones folded."""
    if not run.events:
        return section("events", "Events", el("p", "No event recorded."))
    routine = [event for event in run.events if event.get("kind") in ROUTINE]
    unusual = [event for event in run.events if event.get("kind") not in ROUTINE]
    quiet = el("p", "Nothing but checkpoints, evaluations and the like.", class_="quiet")
    return section(
        "events",
        "Events",
        _kinds(run.events),
        _events(unusual) if unusual else quiet,
        folded(f"{len(routine):,} routine events", _events(routine)) if routine else "",
    )


def config_section(run: RunData) -> Html:
    """What was asked for: the settings that differ from the defaults, then all of them."""
    whole = folded("the whole config.yaml", el("pre", run.config_text))
    if isinstance(run.config, ExperimentConfig):
        return section("config", "Configuration", *_highlights(run.config), whole)
    problem = el("p", "This version cannot read the run's configuration:")
    return section("config", "Configuration", problem, el("pre", run.config), whole)


def machine_section(run: RunData) -> Html:
    """Versions, commit, seeds and hardware of every start, and the peak memory of each role."""
    starts = [run.manifest, *_dicts(run.manifest.get("resumes"))] if run.manifest else []
    tables = [
        el("div", el("h3", "resume" if i else "start"), facts(_start(start)))
        for i, start in enumerate(starts)
    ]
    content = tables or [el("p", "manifest.json is missing or cannot be read.")]
    return section("machine", "Versions and hardware", *content, _memory(run.events))


def _kinds(events: Sequence[Mapping[str, Any]]) -> Html:
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(str(event.get("kind")), []).append(event)
    rows = (
        [code(kind), found[0].get("time", ""), found[-1].get("time", ""), f"{len(found):,}"]
        for kind, found in sorted(by_kind.items())
    )
    return table(["kind", "first", "last", "events"], rows, numeric=1)


def _events(events: Sequence[Mapping[str, Any]]) -> Html:
    shown = list(events)[-MOST_EVENTS:]
    rows = ([e.get("time", ""), code(e.get("kind")), _fields(e)] for e in shown)
    left_out = len(events) - len(shown)
    note = el("p", f"{left_out:,} earlier ones are in events.jsonl.") if left_out else Html()
    return join([table(["time", "kind", "what"], rows), note])


def _fields(event: Mapping[str, Any]) -> Html:
    return join(
        _field(name, value) for name, value in event.items() if name not in ("time", "kind")
    )


def _field(name: str, value: object) -> Html:
    words = value if isinstance(value, str) else json.dumps(value)
    if "\n" in words or len(words) > 120:
        return join([f"{name}: ", text_block(words, MOST_CHARACTERS)])
    return join([f"{name}: ", words, "; "])


def _highlights(config: ExperimentConfig) -> list[Html]:
    plain = ExperimentConfig(
        steps=config.steps, model=config.model, data=config.data, verifier=config.verifier
    )
    changed = [
        [code(d.key), json.dumps(d.new), json.dumps(d.old)] for d in differences(plain, config)
    ]
    asked = [
        ("seed", config.seed),
        ("steps", config.steps),
        ("model", _flow(config.model)),
        ("data.train", _flow(config.data.train)),
        ("verifier.use", _flow(config.verifier.use)),
    ]
    return [
        facts((code(key), value) for key, value in asked),
        el("h3", "Settings that differ from the defaults"),
        table(["key", "this run", "default"], changed),
    ]


def _flow(part: Any) -> str:
    tree = part.model_dump(mode="json")
    return yaml.safe_dump(tree, sort_keys=False, default_flow_style=True, width=10**6).strip()


def _start(start: Mapping[str, Any]) -> list[tuple[object, object]]:
    rows: list[tuple[object, object]] = []
    for name, value in start.items():
        if name == "resumes":
            continue
        if isinstance(value, dict):
            rows += [(f"{name}: {key}", _value(key, inner)) for key, inner in value.items()]
        else:
            rows.append((name, _value(name, value)))
    return rows


def _value(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return gibibytes(value)
    return value if isinstance(value, str) else json.dumps(value)


def _memory(events: Sequence[Mapping[str, Any]]) -> Html:
    peaks = [event for event in events if event.get("kind") == "memory"]
    if not peaks:
        return Html()
    rows = (
        (role, gibibytes(peak)) for role, peak in peaks[-1].items() if isinstance(peak, int | float)
    )
    return el("div", el("h3", "Peak memory by role"), facts(rows))


def _dicts(found: object) -> Iterable[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
