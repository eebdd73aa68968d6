"""HTML elements as text; content that is not markup is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

__all__ = ["Content", "Markup", "code", "joined", "markup", "section", "tag"]

Content = str | None | Iterable["Content"]
"""Content of an element: text, markup, nothing, or several of these."""

VOID = frozenset({"br", "link", "meta", "wbr"})
SELF_CLOSING = frozenset({"circle", "ellipse", "line", "path", "polyline", "rect"})


def markup(content: Content) -> Markup:
    """Return content as HTML; text is escaped, markup is not."""
    if content is None:
        return Markup()
    return escape(content) if isinstance(content, str) else Markup().join(map(markup, content))


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escape(f"{value:.6g}" if isinstance(value, float) else value)}"'


def tag(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """Return an element, without attributes that are None or False.

    Underscores in attribute names are replaced by hyphens; a trailing one is dropped (`class_`).
    """
    start = name + "".join(_attribute(key, value) for key, value in attributes.items())
    inside = markup(content)
    if name in VOID:
        text = f"<{start}>"
    elif name in SELF_CLOSING and not inside:
        text = f"<{start}/>"
    else:
        text = f"<{start}>{inside}</{name}>"
    return Markup(text)  # noqa: S704 (attributes and content are escaped above)


def joined(separator: str, items: Iterable[Content]) -> Markup:
    """Return several contents with a separator between them."""
    return markup(separator).join(map(markup, items))


def code(text: str) -> Markup:
    """Return a rule's text as code with line breaks allowed after operators only."""
    pieces = re.split(r"(?<=[*/,])", text)
    return tag("code", joined("", [[piece, tag("wbr")] for piece in pieces[:-1]]), pieces[-1])


def section(anchor: str, title: str, *content: Content, lead: Content = None) -> Markup:
    """Return a section of the page with a title and an introductory sentence."""
    return tag(
        "section",
        tag("h2", title, id=f"{anchor}-title"),
        tag("p", lead, class_="lead") if lead else None,
        content,
        id=anchor,
        aria_labelledby=f"{anchor}-title",
    )
