"""The path through the super-tree along which most rules were drawn."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.searchers._base import Candidate, Outcome
from optsmith.searchers._mct_decision import ChildScore, Decision
from optsmith.space import Partial, Space


def most_drawn(
    space: Space, history: Sequence[tuple[Candidate, Outcome]], levels: int
) -> list[Decision]:
    """Return the first levels of the path, in the form of the decisions of a tree search.

    Args:
        space: The super-tree.
        history: The candidates with their outcomes.
        levels: Maximum number of levels.
    """
    found: list[Decision] = []
    node = space.root
    below = list(history)
    while below and len(found) < levels:
        level = _level(space, node, below, len(found))
        found.append(level)
        if level.chosen is None:
            break
        node = level.chosen
        start = node.operators
        below = [(c, o) for c, o in below if c.rule.operators[: len(start)] == start]
    return found


def _level(
    space: Space, node: Partial, below: Sequence[tuple[Candidate, Outcome]], level: int
) -> Decision:
    scores: dict[Partial, list[float]] = {child: [] for child in space.children(node)}
    draws = dict.fromkeys(scores, 0)
    for candidate, outcome in below:
        child = Partial(candidate.rule.operators[: len(node.operators) + 1])
        draws[child] = draws.get(child, 0) + 1
        if outcome.score is not None:
            scores.setdefault(child, []).append(outcome.score)
    children = tuple(
        ChildScore(child, sum(values) / len(values) if values else None, len(values))
        for child, values in scores.items()
    )
    open_children = [child for child in draws if draws[child] and not child.is_complete]
    accepted = sum(outcome.accepted for _, outcome in below)
    chosen = max(open_children, key=lambda child: draws[child], default=None)
    ended = f"{accepted} accepted"
    return Decision(level, node, len(below), accepted, children, chosen, ended)
