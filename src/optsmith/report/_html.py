"""HTML elements as safe text: what is not markup already is escaped, without being asked to."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

Content = str | None | Iterable["Content"]
"""What goes inside an element: text, markup, nothing, or several of these."""

VOID = frozenset({"br", "link", "meta", "wbr"})
SELF_CLOSING = frozenset({"circle", "ellipse", "line", "path", "polyline", "rect"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def markup(content: Content) -> Markup:
    """Return content as HTML: text is escaped, markup is kept, several are joined."""
    if content is None:
        return Markup("")
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(html.escape(content))
    return Markup("".join(map(markup, content)))


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{html.escape(_plain(value))}"'


def _plain(value: str | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """Return one element; attributes that are None or False are left out.

    Underscores in attribute names stand for dashes, one at the end for nothing (`class_`).
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{written}>")
    inside = markup(content)
    if name in SELF_CLOSING and not inside:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{inside}</{name}>")


def joined(separator: str, items: Iterable[Content]) -> Markup:
    """Return several contents with a separator between them."""
    return Markup(markup(separator).join(map(markup, items)))


def code(text: str) -> Markup:
    """Return a rule's text as code that may break after its operators and nowhere else."""
    pieces = re.split(r"(?<=[*/,])", text)
    return tag("code", joined("", [[piece, tag("wbr")] for piece in pieces[:-1]]), pieces[-1])


def section(anchor: str, title: str, *content: Content, lead: Content = None) -> Markup:
    """Return a titled part of the page, with a sentence on what it shows."""
    return tag(
        "section",
        tag("h2", title, id=f"{anchor}-title"),
        tag("p", lead, class_="lead") if lead else None,
        content,
        id=anchor,
        aria_labelledby=f"{anchor}-title",
    )
