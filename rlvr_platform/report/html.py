"""HTML from nested calls. Whatever is not markup already is escaped: text cannot become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"meta"})
_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {127: 0x2421}
"""Control characters as their pictures: HTML forbids most of them, and a reader must see them."""


class Html(str):
    """Markup that is safe to put into a page."""

    __slots__ = ()


def escape(text: object) -> Html:
    """`text` as markup that shows it; markup stays as it is."""
    if isinstance(text, Html):
        return text
    # A lone surrogate, legal in JSON, has no UTF-8 form.
    plain = str(text).translate(_VISIBLE).encode("utf-8", "replace").decode("utf-8")
    return Html(html.escape(plain))


def join(parts: Iterable[object], between: str = "") -> Html:
    """The parts one after another."""
    return Html(between.join(map(escape, parts)))


def el(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. `class_` and the like lose their last underscore; inner ones become hyphens."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
    )
    if name in _VOID:
        return Html(f"<{name}{words}>")
    return Html(f"<{name}{words}>{join(children)}</{name}>")
