"""A rule that a searcher recommends."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith.rules import Rule


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that a searcher recommends.

    Attributes:
        rule: The rule.
        lr: Its learning rate.
    """

    rule: Rule
    lr: float
