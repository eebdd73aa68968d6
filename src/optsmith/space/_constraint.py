"""Constraints of the super-tree: data, so that users can add their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constraint:
    """Forbids operators directly under another.

    Three reasons make a pair worth forbidding: the child cancels the parent, the child is
    redundant under it, or the pair is a constant.

    Args:
        parent: Name of the operator above; None for the root of the rule.
        children: Names of operators (or numbers, as text) that may not stand under it. A name
            covers every variant of the operator.
        reason: Why, for people.
        slot: The operand that it is about (0 or 1); None for all.
    """

    parent: str | None
    children: frozenset[str]
    reason: str
    slot: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", frozenset(self.children))

    def forbids(self, parent: str | None, slot: int, child: str) -> bool:
        """Return whether `child` may not be operand `slot` of `parent`."""
        return self.parent == parent and self.slot in (None, slot) and child in self.children


_TIMES = ("1", "2", "ld", "cd", "rd")

PAPER_CONSTRAINTS = (
    Constraint("log", frozenset({"exp"}), "the logarithm cancels the exponential"),
    Constraint("neg", frozenset({"neg"}), "the two signs cancel"),
    Constraint("sign", frozenset({"sign", "sm1", "sg", "clip"}), "redundant under sign"),
    Constraint("sign", frozenset(_TIMES), "the sign of a positive number is 1"),
    Constraint("sqrt", frozenset({"sign", "1"}), "the root is 1"),
    Constraint("clip", frozenset({"clip"}), "redundant under clip"),
    Constraint("clip", frozenset(_TIMES), "clipped to a constant"),
)
