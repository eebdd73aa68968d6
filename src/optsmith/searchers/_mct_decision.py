"""What the tree search decides at the end of a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optsmith.space import Partial


@dataclass(frozen=True, slots=True)
class ChildScore:
    """A child of a level's node.

    Attributes:
        node: The child.
        score: Mean of the scores registered for it; None when there are none.
        count: Their number.
    """

    node: Partial
    score: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How a level ended.

    Attributes:
        level: Its number, from 0.
        node: The node that it explored.
        draws: Candidates drawn.
        accepted: Candidates accepted.
        children: The node's children with their scores.
        chosen: The child that the next level explores; None when the search stays or ends.
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
        goes = "" if self.chosen is None else f"; on to {self.chosen}"
        return f"level {self.level + 1}: {self.ended}{goes}"

    def to_json(self) -> dict[str, Any]:
        """Return the decision as plain data."""
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
