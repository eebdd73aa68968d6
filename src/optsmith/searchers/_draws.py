"""Draws below a node of the super-tree, each from a generator of its own."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.rules import Rule
from optsmith.searchers._base import generator
from optsmith.space import Partial, Space

DRAWS_PER_LEVEL = 4500
"""A level of the tree search that has not found its candidates after so many draws ends."""

EVALUATIONS_PER_BUDGET = 3.5
"""A search ends after so many evaluations for each one that it may accept."""


def draw(
    space: Space, children: Sequence[Partial], seed: int, level: int, index: int
) -> tuple[Partial, Rule]:
    """Return a random child and a random rule below it, decided by seed, level and index alone."""
    rng = generator(seed, level, index)
    child = children[int(rng.random() * len(children))]
    return child, space.unroll(child, rng)
