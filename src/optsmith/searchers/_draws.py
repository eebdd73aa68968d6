"""Random draws from the super-tree, with an independent generator per draw."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.rules import Rule
from optsmith.searchers._base import generator
from optsmith.space import Partial, Space

DRAWS_PER_LEVEL = 4500
"""Default maximum number of draws per level of the tree search."""

EVALUATIONS_PER_BUDGET = 3.5
"""Maximum number of evaluations of a search, as a multiple of its budget."""


def draw(
    space: Space, children: Sequence[Partial], seed: int, level: int, index: int
) -> tuple[Partial, Rule]:
    """Return a random child and a random rule below it, given by seed, level and index."""
    rng = generator(seed, level, index)
    child = children[int(rng.random() * len(children))]
    return child, space.unroll(child, rng)
