"""The decision of the tree search at the end of a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optsmith.space import Partial


@dataclass(frozen=True, slots=True)
class ChildScore:
    """The score of a child of the current node.

    Attributes:
        node: The child.
        score: Mean of its registered scores; None if there are none.
        count: Number of registered scores.
    """

    node: Partial
    score: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision at the end of a level.

    Attributes:
        level: Index of the level, from 0.
        node: The node that the level explored.
        draws: Number of candidates drawn.
        accepted: Number of candidates accepted.
        children: The node's children with their scores.
        chosen: The child that the next level explores; None if the search stays at the node or
            ends.
        ended: Why the level ended.
    """

    level: int
    node: Partial
    draws: int
    accepted: int
    children: tuple[ChildScore, ...]
    chosen: Partial | None
    ended: str

    def __str__(self) -> str:
        next_node = "" if self.chosen is None else f"; descends to {self.chosen}"
        return f"level {self.level + 1}: {self.ended}{next_node}"

    def to_json(self) -> dict[str, Any]:
        """Return the decision as JSON data."""
        return {
            "level": self.level,
            "node": str(self.node),
            "draws": self.draws,
            "accepted": self.accepted,
            "ended": self.ended,
            "chosen": None if self.chosen is None else str(self.chosen),
            "children": [
                {
                    "node": str(child.node),
                    "operator": str(child.node.operators[-1]) if child.node.operators else "",
                    "score": child.score,
                    "count": child.count,
                    "is_leaf": child.node.is_complete,
                }
                for child in self.children
            ],
        }
