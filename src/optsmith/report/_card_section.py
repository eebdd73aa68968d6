"""Section of the claim card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optsmith.report._card import make_card
from optsmith.report._html import Content, Markup, code, section, tag
from optsmith.report._markdown import markdown
from optsmith.report._parts import Part, Text, Verbatim
from optsmith.report._usage import copyable


def _text(text: Text) -> Content:
    pieces = (text,) if isinstance(text, str) else text
    return [code(piece) if isinstance(piece, Verbatim) else piece for piece in pieces]


def _table(part: Part) -> Markup | None:
    if not part.rows:
        return None
    heads = [
        tag("th", name, scope="col", class_="number" if column else None)
        for column, name in enumerate(part.head)
    ]
    rows = [
        tag("tr", tag("th", _text(row[0]), scope="row"),
            [tag("td", _text(cell), class_="number") for cell in row[1:]])
        for row in part.rows
    ]  # fmt: skip
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="lines")
    label = f"{part.title}; scrolls sideways"
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _part(part: Part) -> Markup:
    facts = [tag("div", tag("dt", name), tag("dd", _text(value))) for name, value in part.facts]
    items = [tag("li", _text(item)) for item in part.items]
    return tag(
        "div",
        tag("h3", part.title),
        tag("dl", facts) if facts else None,
        _table(part),
        tag("ul", items) if items else None,
        [tag("pre", tag("code", text)) for _, text in part.blocks],
        class_="part wide" if part.rows or part.blocks else "part",
    )


def card_section(data: Mapping[str, Any]) -> Markup | None:
    """Return the section of the claim card, or None before the final comparison."""
    if not data.get("winner") or not data.get("claim"):
        return None
    found = make_card(data)
    copy = tag(
        "details",
        tag("summary", "The card as Markdown"),
        copyable(markdown(found), "the card as Markdown"),
    )
    return section(
        "card",
        "Claim card",
        tag(
            "article",
            tag("p", _text(found.title), class_="card-title"),
            tag("p", found.claim, class_="first"),
            tag("p", found.details, class_="note") if found.details else None,
            tag("div", map(_part, found.parts), class_="parts"),
            class_="card",
        ),
        copy,
        lead="What is claimed, the evidence and its cost, and what was not tested; "
        "optsmith card prints it as Markdown, to paste into a pull request.",
    )
