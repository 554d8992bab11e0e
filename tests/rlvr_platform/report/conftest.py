"""Runs written by the platform's own writers, and a parser that holds HTML to its rules."""

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from rlvr_platform.config import load_config
from rlvr_platform.run_folder import RunFolder
from rlvr_platform.telemetry.names import METRICS
from rlvr_platform.telemetry.rollouts import Recorded, write_rollouts
from rlvr_platform.telemetry.sinks import EventsLog, MetricsLog
from rlvr_platform.types import (
    GradedGroup,
    Outcome,
    Prompt,
    RolloutGroup,
    Ticket,
    Verdict,
    summarise,
)

EXAMPLE = Path(__file__).parents[3] / "configs/dev/arithmetic.yaml"
VOID = {"meta"}


class Page(HTMLParser):
    """A parsed page; raises AssertionError when its tags do not balance."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words, self.attributes, self.ids = [], [], [], [], set()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.ids |= {value for name, value in attrs if name == "id"}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


class Run:
    """A run's folder under construction."""

    def __init__(self, path, *overrides):
        self.folder = RunFolder.create(path, load_config(EXAMPLE, overrides), min_free_bytes=0)
        self.path = self.folder.path
        self.metrics = MetricsLog(self.folder, tensorboard=False)
        self.events = EventsLog(self.folder)

    def steps(self, first, last):
        for step in range(first, last + 1):
            self.metrics.write(record(step))

    def event(self, kind, **fields):
        self.events.write(kind, **fields)

    def evaluated(self, step, value, suite="heldout avg@2"):
        low, high = value - 0.04, value + 0.06
        self.event("evaluated", step=step, suite=suite, value=value, low=low, high=high)

    def rollouts(self, step, groups):
        """`groups`: for each, its prompt and its siblings as (completion, reward or None)."""
        recorded = []
        for i, (prompt, siblings) in enumerate(groups):
            group, count = make_group(i, step, prompt, siblings), len(siblings)
            advantages = np.linspace(-1, 1, count, dtype=np.float32)
            fates, whole = np.zeros(count, int), np.arange(count)
            graded = make_graded(group, siblings)
            recorded.append(Recorded(group, graded, advantages, fates, whole))
        write_rollouts(self.folder.rollouts(step), recorded)


def record(step):
    """A line that has every registered metric; `value_of` knows the values."""
    return {"step": step} | {m.name: value_of(m.name, step) for m in METRICS if m.name != "step"}


def value_of(name, step):
    place = [m.name for m in METRICS].index(name)
    return round(1 + place + 0.5 * math.sin(step + place), 3)


def make_group(group_id, step, prompt, siblings):
    count = len(siblings)
    asked = Prompt(group_id, prompt, np.arange(3, dtype=np.int32), "the <gold>", "sums")
    return RolloutGroup(
        ticket=Ticket(group_id, step=step, prompt=asked, n=count, seed=0),
        tokens=np.arange(count, dtype=np.int32),
        offsets=np.arange(count + 1, dtype=np.int64),
        loss_mask=np.ones(count, bool),
        logprobs=-np.ones(count, np.float32),
        versions=np.zeros(count, np.int32),
        finish=np.zeros(count, np.uint8),
        texts=tuple(text for text, _ in siblings),
    )


def make_graded(group, siblings):
    outcomes = {None: Outcome.TIMEOUT, 0.0: Outcome.WRONG}
    verdicts = tuple(
        Verdict(outcomes.get(reward, Outcome.CORRECT), reward, "<x>", "a rule", 0.1)
        for _, reward in siblings
    )
    return GradedGroup(summarise(group, 1.0), verdicts, group)


@pytest.fixture
def new_run(tmp_path):
    """Starts a run of 10 steps, or as overridden."""
    runs = []

    def start(*overrides):
        runs.append(Run(tmp_path / f"run{len(runs)}", "steps=10", *overrides))
        return runs[-1]

    yield start
    for run in runs:
        run.folder.close()
        run.metrics.close()
        run.events.close()


@pytest.fixture
def parse():
    return Page


@pytest.fixture
def expected():
    return value_of
