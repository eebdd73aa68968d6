"""Search spaces: the super-tree of rules and its constraints."""

from optsmith.space._constraint import PAPER_CONSTRAINTS, Constraint
from optsmith.space._named import spaces
from optsmith.space._space import Partial, Random, Space

__all__ = ["PAPER_CONSTRAINTS", "Constraint", "Partial", "Random", "Space", "spaces"]
