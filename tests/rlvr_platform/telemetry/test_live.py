import io
import os
import pty
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from rlvr_platform.evaluation.estimators import Estimate
from rlvr_platform.telemetry.live import LiveView
from rlvr_platform.telemetry.progress import RunSummary

SUMMARY = RunSummary(Path("/runs/a"), 9, 9, {"x avg@1": Estimate(0.1, 0, 0.2)}, {})


def record(step: int) -> dict[str, float]:
    return {"step": step, "reward/mean": step / 10, "acr/group": 0.5, "time/step": 0.5}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def terminal(monkeypatch):
    """A real pseudo-terminal; yields its writing end, and a function that closes it
    and returns what was shown."""
    monkeypatch.setenv("TERM", "xterm-256color")
    reader, writer = pty.openpty()
    out = os.fdopen(writer, "w")
    chunks: list[bytes] = []

    def drain() -> None:
        # Reading from a terminal whose writing end is closed is an error on Linux.
        with suppress(OSError):
            while chunk := os.read(reader, 65536):
                chunks.append(chunk)

    thread = Thread(target=drain)
    thread.start()

    def shown() -> str:
        out.close()
        thread.join(timeout=10)
        return b"".join(chunks).decode()

    yield out, shown
    out.close()
    thread.join(timeout=10)
    os.close(reader)


def steps_shown(text: str) -> list[int]:
    lines = [line for line in text.splitlines() if line.startswith("step ") and "|" in line]
    return [int(line.split("/")[0].removeprefix("step ")) for line in lines]


def test_without_a_terminal_there_is_a_line_a_second_and_always_the_last():
    out, clock = io.StringIO(), Clock()
    with LiveView(9, out, clock) as view:
        for step in range(10):
            clock.now = step * 0.4
            view.update(record(step))
        view.finish(SUMMARY)
    assert steps_shown(out.getvalue()) == [0, 3, 6, 9]
    assert "\x1b" not in out.getvalue()


def test_the_last_step_is_shown_before_the_summary_when_it_came_too_soon():
    out = io.StringIO()
    view = LiveView(9, out, Clock())
    view.update(record(1))
    view.update(record(2))
    view.update(record(3))
    view.finish(SUMMARY)
    text = out.getvalue()
    assert steps_shown(text) == [1, 3]
    assert text.index("step 3/9") < text.index("/runs/a/metrics.jsonl")


def test_collapse_is_explained_once():
    out, clock = io.StringIO(), Clock()
    view = LiveView(9, out, clock)
    for step in range(3):
        clock.now = step * 2.0
        view.update(record(step))
    assert out.getvalue().count("they teach nothing") == 1


def test_on_a_terminal_a_panel_shows_the_step_and_messages_stay(terminal):
    out, shown = terminal
    with LiveView(9, out) as view:
        view.update(
            record(4) | {"time/generate": 0.3, "rollouts/trained": 3, "rollouts/generated": 4}
        )
        view.message("worker 1 [restarted]")
        view.finish(SUMMARY)
    text = shown()
    for part in ("step 4 of 9", "learning from 75 % of rollouts", "generate", "other"):
        assert part in text
    assert "worker 1 [restarted]" in text
    assert "/runs/a/metrics.jsonl" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is back"


def test_an_error_in_the_run_gives_the_terminal_back(terminal):
    out, shown = terminal
    with pytest.raises(ZeroDivisionError), LiveView(9, out) as view:
        view.update(record(4))
        _ = 1 / 0
    assert "\x1b[?25h" in shown()


def test_a_dumb_terminal_gets_plain_lines(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out, shown = terminal
    LiveView(9, out).update(record(4))
    text = shown()
    assert "step 4/9 | reward 0.400" in text
    assert "\x1b" not in text


def test_a_panel_that_cannot_be_drawn_becomes_plain_lines_with_the_reason(monkeypatch, capsys):
    class AsciiTerminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    raw = io.BytesIO()
    view = LiveView(9, AsciiTerminal(raw, encoding="ascii"))
    view.update(record(4))
    view.update(record(9))
    view.close()
    text = raw.getvalue().decode()
    assert "step 4/9 | reward 0.400" in text
    assert "step 9/9 | reward 0.900" in text
    assert "\x1b[?25h" in text
    told = capsys.readouterr().err
    assert told.count("going on with plain lines") == 1
    assert "UnicodeEncodeError" in told


def test_an_output_that_closed_is_told_once_and_the_run_goes_on(capsys):
    reader, writer = os.pipe()
    os.close(reader)
    out, clock = os.fdopen(writer, "w"), Clock()
    view = LiveView(9, out, clock)
    for step in range(4):
        clock.now = step * 2.0
        view.update(record(step))
    view.message("hello")
    view.finish(SUMMARY)
    assert capsys.readouterr().err.count("cannot print progress (BrokenPipeError") == 1
    with pytest.raises(BrokenPipeError):
        out.close()


def test_a_record_that_is_wrong_is_not_taken_for_a_failing_screen():
    with pytest.raises(KeyError):
        LiveView(9, io.StringIO()).update({"reward/mean": 1.0})
