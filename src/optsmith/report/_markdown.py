"""The claim card of a study as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from optsmith.report._parts import Card, Part, Text, Verbatim

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~])")


def markdown(found: Card) -> str:
    """Return a card as Markdown."""
    lines = [f"### {_inline(found.title)}", "", f"**{_inline(found.claim)}**"]
    lines += ["", _inline(found.details)] if found.details else []
    for part in found.parts:
        lines += ["", f"#### {_inline(part.title)}", *_part(part)]
    return "\n".join(lines) + "\n"


def _part(part: Part) -> list[str]:
    lines: list[str] = []
    if part.facts:
        lines += ["", *(f"- {_inline(name)}: {_inline(value)}" for name, value in part.facts)]
    if part.rows:
        rule = "|".join([" --- "] * len(part.head))
        lines += ["", _row(part.head), f"|{rule}|", *map(_row, part.rows)]
    if part.items:
        lines += ["", *(f"- {_inline(item)}" for item in part.items)]
    for language, text in part.blocks:
        fence = _fence(text, 3)
        lines += ["", f"{fence}{language}", text, fence]
    return lines


def _row(cells: Sequence[Text]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: Text) -> str:
    # A bar ends a cell, even in code; in other text it is escaped already.
    pieces = (text,) if isinstance(text, str) else text
    return "".join(
        _inline(p).replace("|", r"\|") if isinstance(p, Verbatim) else _inline(p) for p in pieces
    )


def _inline(text: Text) -> str:
    """Return text on one line, with special characters escaped, and code in backticks."""
    if not isinstance(text, str):
        return "".join(map(_inline, text))
    line = re.sub(r"\s+", " ", text)
    if not isinstance(text, Verbatim):
        return _SPECIAL.sub(r"\\\1", line)
    fence = _fence(line, 1)
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def _fence(text: str, least: int) -> str:
    """Return more backticks than the text has in a row."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)
