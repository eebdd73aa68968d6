"""Monte-Carlo search down the super-tree, the paper's."""

from __future__ import annotations

import math
from typing import Literal

from optsmith._errors import OptsmithError
from optsmith.searchers._base import (
    DRAWS_PER_LEVEL,
    EVALUATIONS_PER_BUDGET,
    Candidate,
    ChildScore,
    Decision,
    Outcome,
    Searcher,
    generator,
)
from optsmith.space import Partial, Space


class MonteCarloTree(Searcher):
    """Descends the super-tree level by level, each time to the child whose rules scored best.

    At a level, candidates are drawn from random children of the node, each completed at random,
    until enough are accepted. A child's score is the mean of the scores registered for it: of the
    candidates accepted, and of those that are known already, which count once a level. Complete
    rules cannot be descended to.

    Args:
        space: The super-tree.
        budget: Candidates to accept in all, shared evenly by the levels.
        seed: Seed of every draw.
        direction: Whether smaller or larger scores are better.
        levels: Levels to descend.
        draws: A level that has not found its candidates after so many draws ends.
        count_all: Whether every evaluation counts in the budget, not only those accepted.

    Raises:
        OptsmithError: A setting makes no sense.
    """

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Literal["minimize", "maximize"] = "minimize",
        levels: int = 4,
        draws: int = DRAWS_PER_LEVEL,
        count_all: bool = False,
    ) -> None:
        if budget < 1 or levels < 1:
            raise OptsmithError("a search needs a budget and levels of at least 1")
        self.space, self.seed = space, seed
        self.decisions: list[Decision] = []
        self._sign = 1 if direction == "minimize" else -1
        self._levels, self._per_level, self._draws = levels, math.ceil(budget / levels), draws
        self._count_all = count_all
        self._evaluations_left = math.ceil(EVALUATIONS_PER_BUDGET * budget)
        self._node = space.root
        self._begin()

    def _begin(self) -> None:
        self._children = self.space.children(self._node)
        self._scores: dict[Partial, list[float]] = {child: [] for child in self._children}
        self._registered: set[tuple[Partial, str]] = set()
        self._asked = self._told = self._accepted = self._counted = 0

    @property
    def level(self) -> int:
        """The level that is being explored, from 0."""
        return len(self.decisions)

    @property
    def node(self) -> Partial:
        """The node that is being explored."""
        return self._node

    @property
    def need(self) -> int:
        """How many evaluations can still be used at this level."""
        return 0 if self._over else min(self._per_level - self._counted, self._evaluations_left)

    @property
    def _over(self) -> bool:
        return self.level == self._levels or self._evaluations_left == 0

    def ask(self) -> Candidate | None:
        """Return the next draw of this level."""
        if self._over or self._asked == self._draws:
            return None
        rng = generator(self.seed, self.level, self._asked)
        child = self._children[int(rng.random() * len(self._children))]
        candidate = Candidate(self.level, self._asked, child, self.space.unroll(child, rng))
        self._asked += 1
        return candidate

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the candidate's score, and end the level when it has enough."""
        if candidate.level != self.level:
            return  # asked ahead at a level that has ended
        self._told += 1
        self._evaluations_left -= outcome.evaluated
        self._accepted += outcome.kind == "accepted"
        self._counted += outcome.evaluated if self._count_all else outcome.kind == "accepted"
        place = (candidate.node, outcome.key)
        if outcome.score is not None and not (outcome.key and place in self._registered):
            self._scores[candidate.node].append(outcome.score)
            self._registered.add(place)
        if ended := self._ended():
            self._decide(ended)

    def _ended(self) -> str:
        if self._counted == self._per_level:
            return f"{self._counted} {'evaluated' if self._count_all else 'accepted'}"
        if self._told == self._draws:
            return f"{self._draws} draws"
        if self._evaluations_left == 0:
            return "no evaluations left"
        return ""

    def _decide(self, ended: str) -> None:
        children = tuple(
            ChildScore(child, sum(scores) / len(scores) if scores else None, len(scores))
            for child, scores in self._scores.items()
        )
        open_children = [c for c in children if c.score is not None and not c.node.is_complete]
        best = min(open_children, key=self._rank, default=None)
        is_last = self.level + 1 == self._levels
        chosen = None if is_last or best is None else best.node
        self.decisions.append(
            Decision(self.level, self._node, self._told, self._accepted, children, chosen, ended)
        )
        self._node = chosen or self._node
        self._begin()

    def _rank(self, child: ChildScore) -> float:
        return math.inf if child.score is None else self._sign * child.score
