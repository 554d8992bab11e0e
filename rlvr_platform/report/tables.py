"""Tables of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rlvr_platform.report.html import Html, el


def table(head: Sequence[object], rows: Iterable[Sequence[object]], numeric: int = 0) -> Html:
    """A table; its last `numeric` columns hold numbers and align to the right."""
    first = len(head) - numeric

    def cells(kind: str, row: Sequence[object]) -> Html:
        return el("tr", *(_cell(kind, cell, place >= first) for place, cell in enumerate(row)))

    body = el("tbody", *(cells("td", row) for row in rows))
    return el("div", el("table", el("thead", cells("th", head)), body), class_="scroll")


def facts(rows: Iterable[tuple[object, object]]) -> Html:
    """Names and their values."""
    lines = (el("tr", el("th", name, scope="row"), el("td", value)) for name, value in rows)
    return el("div", el("table", el("tbody", *lines), class_="facts"), class_="scroll")


def code(text: object) -> Html:
    return el("code", text)


def text_block(text: str, most: int) -> Html:
    """Text as it stands, cut after `most` characters with a word on what is missing."""
    if len(text) <= most:
        return el("pre", text)
    return el("pre", text[:most], el("i", f"\n… {len(text) - most:,} more characters"))


def folded(title: object, *content: object) -> Html:
    """Content that opens at a click."""
    return el("details", el("summary", title), *content)


def bar(share: float) -> Html:
    """A share of 0..1 as a bar; more than 1 is drawn as 1."""
    width = 100 * min(1.0, max(0.0, share))
    return el("span", el("span", style=f"width:{width:.1f}%"), class_="bar")


def _cell(kind: str, content: object, numeric: bool) -> Html:
    return el(kind, content, class_="number") if numeric else el(kind, content)
