"""Constraints of the super-tree; users can add their own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Constraint:
    """Forbids some operators as direct operands of another.

    There are three reasons to forbid a pair: the child cancels the parent, the child is redundant
    under the parent, or the pair is constant.

    Args:
        parent: Name of the parent operator; None for the root of the rule.
        children: Names of the forbidden operators (or numbers, as text). A name includes every
            variant of the operator.
        reason: Explanation for readers.
        slot: Index of the operand that the constraint applies to (0 or 1); None for all.
    """

    parent: str | None
    children: frozenset[str]
    reason: str
    slot: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", frozenset(self.children))

    def forbids(self, parent: str | None, slot: int, child: str) -> bool:
        """Return whether `child` is forbidden as operand `slot` of `parent`."""
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
