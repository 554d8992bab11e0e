from pathlib import Path

from rlvr_platform.telemetry.docs import render
from rlvr_platform.telemetry.names import METRICS, PATTERNS

PAGE = Path(__file__).parents[3] / "docs/metrics.md"


def test_the_committed_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == render(), "run: make docs"


def test_every_metric_stands_once_as_a_row_of_three_cells():
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    assert len(rows) == len(METRICS + PATTERNS)
    for row in rows:
        assert row.replace("\\|", "").count("|") == 4
    names = [row.split("`")[1] for row in rows]
    assert sorted(names) == sorted(metric.name for metric in METRICS + PATTERNS)
