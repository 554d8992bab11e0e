from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.clocks import wall_clock_lines, wall_clock_readers


def test_no_deadline_reads_the_wall_clock() -> None:
    assert wall_clock_readers() == []


@pytest.mark.parametrize(
    "line", ["time.time()", "datetime.now(UTC)", "from time import time", "clock = time.time"]
)
def test_a_reader_of_the_wall_clock_is_found(tmp_path: Path, line: str) -> None:
    source = tmp_path / "source.py"
    source.write_text(f"import time\n{line}\ntime.monotonic()\n")
    assert wall_clock_lines(source) == [2]
