"""The structure of a claim card, which Markdown and the page show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class Verbatim(str):
    """Text that is shown as code: rules, names of opponents, commands."""

    __slots__ = ()


Text = str | tuple[str, ...]
"""Text, or pieces of text and code."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a card.

    Attributes:
        title: Heading.
        facts: Names and values.
        head: Column names of the table.
        rows: Rows of the table.
        items: A list of sentences.
        blocks: Blocks of code, with their languages.
    """

    title: str
    facts: Sequence[tuple[str, Text]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Text]] = ()
    items: Sequence[Text] = ()
    blocks: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A claim card.

    Attributes:
        title: Its title.
        claim: The first sentence of the verdict.
        details: The other sentences.
        parts: Everything else.
    """

    title: Text
    claim: str
    details: str
    parts: Sequence[Part]
