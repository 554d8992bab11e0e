"""The screen of a running training: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rlvr_platform.telemetry.progress import (
    COLLAPSE_HELP,
    Progress,
    ProgressTracker,
    RunSummary,
    duration,
    learning_text,
    percent,
    plain_line,
    summary_lines,
)

_PLAIN_INTERVAL_S = 1.0
_BAR_WIDTH = 40
_SHOW_CURSOR = "\x1b[?25h\n"


class _Screen(Protocol):
    def show(self, progress: Progress) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...


class LiveView:
    """Shows a run while it trains. A screen that fails never stops the run: the view falls
    back to plain lines, saying why, and if these fail too, to silence with a word on stderr.

    Use as a context manager, so that the terminal is put back in order after an error.
    """

    def __init__(
        self,
        total_steps: int,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`out` defaults to standard output; a panel appears when it is a capable terminal."""
        self._out = out if out is not None else sys.stdout
        self._clock = clock
        self._tracker = ProgressTracker(total_steps)
        self._screen: _Screen = _PlainLines(self._out, clock)
        console = Console(file=self._out)
        if self._out.isatty() and not console.is_dumb_terminal:
            self._screen = _LivePanel(console)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, record: Mapping[str, float]) -> None:
        """Show the record of a step, as written to metrics.jsonl."""
        progress = self._tracker.update(record)
        self._draw(lambda screen: screen.show(progress))

    def message(self, text: str) -> None:
        """Say something that stays on the screen, e.g. that a worker was restarted."""
        self._draw(lambda screen: screen.message(text))

    def finish(self, summary: RunSummary) -> None:
        """Close the view and say what the run achieved."""
        self.close()
        self._draw(lambda screen: screen.message("\n".join(summary_lines(summary))))

    def close(self) -> None:
        self._draw(lambda screen: screen.close())

    def _draw(self, action: Callable[[_Screen], None]) -> None:
        # Any failure here is the screen's: records and summaries are worked out before.
        try:
            action(self._screen)
        except Exception as error:
            self._fall_back(error)
            self._retry(action)

    def _retry(self, action: Callable[[_Screen], None]) -> None:
        try:
            action(self._screen)
        except Exception as error:
            self._fall_back(error)

    def _fall_back(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(self._screen, _LivePanel):
            # The cursor is hidden while the panel is live; the first error is the one to tell.
            with suppress(Exception):
                self._screen.abandon()
            self._screen = _PlainLines(self._out, self._clock)
            _tell(f"the live view failed ({reason}); going on with plain lines")
        elif isinstance(self._screen, _PlainLines):
            self._screen = _Silence()
            _tell(f"cannot print progress ({reason}); the run goes on, see its metrics.jsonl")


class _PlainLines:
    """A line a step, at most one a second, and always the last one."""

    def __init__(self, out: TextIO, clock: Callable[[], float]) -> None:
        self._out = out
        self._clock = clock
        self._next = float("-inf")
        self._pending = ""
        self._explained = False

    def show(self, progress: Progress) -> None:
        if progress.collapse is not None and not self._explained:
            self._explained = True
            self._print(COLLAPSE_HELP)
        self._pending = plain_line(progress)
        if self._clock() >= self._next:
            self._flush()

    def message(self, text: str) -> None:
        self._print(text)

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        if self._pending:
            line, self._pending = self._pending, ""
            self._next = self._clock() + _PLAIN_INTERVAL_S
            self._print(line)

    def _print(self, text: str) -> None:
        print(text, file=self._out, flush=True)


class _LivePanel:
    """One panel at the bottom of the terminal, redrawn in place; messages scroll above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # Drawn by the caller's thread: an error in a refresh thread would reach nobody.
        self._live = Live(console=console, auto_refresh=False)

    def show(self, progress: Progress) -> None:
        if not self._live.is_started:
            self._live.start()
        self._live.update(panel(progress), refresh=True)

    def message(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def abandon(self) -> None:
        """Close after a failure: the cursor comes back even if the panel cannot be drawn."""
        try:
            self._live.stop()
        finally:
            self._console.file.write(_SHOW_CURSOR)


class _Silence:
    def show(self, progress: Progress) -> None: ...
    def message(self, text: str) -> None: ...
    def close(self) -> None: ...


def panel(progress: Progress) -> RenderableType:
    """The live panel for one step."""
    rows = Table.grid(padding=(0, 2))
    for label, value in _facts(progress):
        rows.add_row(Text(label, style="dim"), Text(value))
    share = progress.step / progress.total_steps
    title = f"step {progress.step} of {progress.total_steps}"
    body = Group(_bar(share), rows, _time_bars(progress), Text(COLLAPSE_HELP, style="dim"))
    return Panel(body, title=title, title_align="left", width=100)


def _facts(progress: Progress) -> list[tuple[str, str]]:
    shown = [
        ("reward", progress.reward, lambda v: f"{v:.3f}"),
        ("signal", progress.learning_share, learning_text),
        ("ACR", progress.collapse, percent),
        ("tokens/s", progress.tokens_per_second, lambda v: f"{v:,.0f}"),
        ("step time", progress.step_seconds, lambda v: f"{v:.2f} s"),
        ("lag", progress.lag, lambda v: f"{v:.0f} updates"),
        ("remaining", progress.remaining_seconds, duration),
    ]
    facts = [(label, text(value)) for label, value, text in shown if value is not None]
    held_out = [f"{name} {percent(value)}" for name, value in progress.evaluations.items()]
    methods = list(progress.methods.items())
    return facts + methods + [("held out", text) for text in held_out]


def _time_bars(progress: Progress) -> Table:
    bars = Table.grid(padding=(0, 2))
    total = sum(progress.phases.values()) or 1.0
    for name, seconds in progress.phases.items():
        bars.add_row(Text(name, style="dim"), Text(f"{seconds:.2f} s"), _bar(seconds / total))
    return bars


def _bar(share: float) -> Text:
    filled = round(_BAR_WIDTH * min(1.0, share))
    return Text("━" * filled + " " * (_BAR_WIDTH - filled), style="green")


def _tell(text: str) -> None:
    """A last word on stderr; when even that is closed, nobody is left to be told."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return
