"""Random search: the tree search that never leaves the root."""

from __future__ import annotations

from typing import Literal

from optsmith.searchers._base import DRAWS_PER_LEVEL
from optsmith.searchers._mct import MonteCarloTree
from optsmith.space import Space


def random_search(
    space: Space,
    budget: int,
    seed: int = 0,
    direction: Literal["minimize", "maximize"] = "minimize",
    levels: int = 4,
    count_all: bool = False,
) -> MonteCarloTree:
    """Return a searcher that draws every candidate from the root.

    Args:
        space: The super-tree.
        budget: Candidates to accept.
        seed: Seed of every draw.
        direction: Whether smaller or larger scores are better.
        levels: It may draw as often as a tree search of so many levels.
        count_all: Whether every evaluation counts in the budget, not only those accepted.
    """
    draws = levels * DRAWS_PER_LEVEL
    return MonteCarloTree(
        space, budget, seed, direction, levels=1, draws=draws, count_all=count_all
    )
