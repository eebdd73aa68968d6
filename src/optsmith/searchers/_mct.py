"""The Monte Carlo tree search of the paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher
from optsmith.searchers._draws import DRAWS_PER_LEVEL, EVALUATIONS_PER_BUDGET, draw
from optsmith.searchers._ladder import Ladder
from optsmith.searchers._mct_decision import ChildScore, Decision
from optsmith.searchers._options import option
from optsmith.searchers._rungs import RUNGS_HELP, Rungs
from optsmith.searchers._start import Start
from optsmith.searchers._warm import WarmStart
from optsmith.space import Partial, Space


@dataclass(frozen=True)
class TreeOptions:
    """Options of the tree search."""

    levels: int = option(4, "Levels of the super-tree to descend.")
    draws: int = option(DRAWS_PER_LEVEL, "Maximum number of draws per level.")
    count_all: bool = option(False, "Count every evaluation in the budget, not only accepted ones.")
    rungs: str = option("1", RUNGS_HELP)

    def __post_init__(self) -> None:
        for name in ("levels", "draws"):
            if getattr(self, name) < 1:
                raise OptsmithError(f"{name} must be at least 1, not {getattr(self, name)}")
        Rungs.parse(self.rungs)


class MonteCarloTree(Searcher):
    """Descends the super-tree level by level to the child with the best mean score.

    At each level, candidates are drawn by choosing a random child of the current node and
    completing it at random, until enough are accepted; the budget is divided evenly between the
    levels. The score of a child is the mean score of its accepted candidates and of its duplicates,
    each counted once per level. Children that are complete rules are never chosen.

    Known rules to start from are evaluated before the first level, and their scores count for the
    children above them at every level. With several rungs, levels draw on the first one, and the
    best candidates of all levels are promoted to longer runs.

    See `Searcher` for the arguments.

    Attributes:
        decisions: The decisions at the ends of the levels so far.
    """

    Options = TreeOptions

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Direction = "minimize",
        options: TreeOptions | None = None,
    ) -> None:
        super().__init__(space, budget, seed, direction, options)
        self.decisions: list[Decision] = []
        self._sign = 1 if direction == "minimize" else -1
        self._ladder = Ladder(self.options.rungs, direction, self.log)
        self._warm = WarmStart(space, budget, self._ladder.fidelity)
        self._started: list[tuple[Candidate, Outcome]] = []  # known rules that were told
        self._divide(budget)
        self._evaluations_left = math.ceil(EVALUATIONS_PER_BUDGET * budget)
        self._spent = 0
        self._node = space.root
        self._begin_level()

    def begin(self, starts: Sequence[Start]) -> None:
        """Receive known rules, which are the first candidates."""
        self._divide(self.budget - self._warm.begin(starts))

    def _divide(self, budget: int) -> None:
        """Divide the budget between the levels."""
        self._per_level: int = math.ceil(budget / self.options.levels)

    def _begin_level(self) -> None:
        self._children = self.space.children(self._node)
        self._scores: dict[Partial, list[float]] = {child: [] for child in self._children}
        self._registered: set[tuple[Partial, str]] = set()
        self._drawn_from: dict[str, Partial] = {}  # the child of each outstanding candidate
        self._asked = self._told = self._accepted = self._counted = 0
        for candidate, outcome in self._started:
            self._register_start(candidate, outcome)

    @property
    def _level(self) -> int:
        return len(self.decisions)

    @property
    def _quota(self) -> int:
        """Number of candidates that this level accepts; known rules take theirs from the last."""
        left = self._counted + self.budget - self._spent
        return min(self._per_level, left) if self._started else self._per_level

    @property
    def need(self) -> int:
        """Number of evaluations that can still be used at this level or rung."""
        if self._ladder.begun:
            return self._ladder.need
        known = self._warm.left
        return known + min(self._quota - self._counted, self._evaluations_left - known)

    @property
    def spent(self) -> int:
        """Number of evaluations counted in the budget."""
        return self._spent

    @property
    def done(self) -> float:
        """Levels that are complete; a level may end because its draws or evaluations are used."""
        share = max(self._counted / self._per_level, self._told / self.options.draws)
        return self._ladder.done((self._level + share) / self.options.levels)

    def ask(self, n: int) -> list[Candidate]:
        """Return the next known rules, draws of this level or promoted candidates."""
        if self._ladder.begun:
            return self._ladder.ask(n)
        found = self._warm.ask(n)
        if not self._quota:
            return found
        first = self._asked
        self._asked = min(first + n - len(found), self.options.draws)
        return [*found, *(self._draw(index) for index in range(first, self._asked))]

    def _draw(self, index: int) -> Candidate:
        child, rule = draw(self.space, self._children, self.seed, self._level, index)
        # Below the root the id contains the node: with a different budget, a level may explore
        # another node, and an id must identify one rule.
        name = f"{self._level}:{index}" + (f" {self._node}" if self._level else "")
        self._drawn_from[name] = child
        return Candidate(name, rule, self._ladder.fidelity, phase=f"level {self._level + 1}")

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether the level or rung of the candidate has ended."""
        if self._ladder.begun:
            return self._ladder.obsolete(candidate)
        return candidate.id not in self._drawn_from and not self._warm.has(candidate)

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the score, and choose the next node if the level is complete."""
        is_promoted = self._ladder.begun
        self._ladder.tell(candidate, outcome)
        if is_promoted:
            return
        self._evaluations_left -= outcome.evaluated
        counts = outcome.evaluated if self.options.count_all else outcome.accepted
        self._spent += counts
        if self._warm.tell(candidate):
            self._tell_start(candidate, outcome)
            return
        self._told += 1
        self._accepted += outcome.accepted
        self._counted += counts
        self._register(self._drawn_from.pop(candidate.id), outcome)
        if ended := self._ended():
            self._decide(ended)

    def _tell_start(self, candidate: Candidate, outcome: Outcome) -> None:
        self._started.append((candidate, outcome))
        self._register_start(candidate, outcome)
        if not self._warm.left:  # what known rules have left of the budget
            self._divide(self.budget - self._spent)
            if not self._quota:
                self._ladder.climb()

    def _register_start(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the score of a known rule for the child above it, if it is below the node."""
        child = Partial(candidate.rule.operators[: len(self._node.operators) + 1])
        if child in self._scores:
            self._register(child, outcome)

    def _register(self, child: Partial, outcome: Outcome) -> None:
        place = (child, outcome.key)
        if outcome.score is not None and not (outcome.key and place in self._registered):
            self._scores[child].append(outcome.score)
            self._registered.add(place)

    def _ended(self) -> str:
        if self._counted == self._quota:
            return f"{self._counted} {'evaluated' if self.options.count_all else 'accepted'}"
        if self._told == self.options.draws:
            return f"{self.options.draws} draws"
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
        is_last = self._level + 1 == self.options.levels
        chosen = None if is_last or best is None else best.node
        self.decisions.append(
            Decision(self._level, self._node, self._told, self._accepted, children, chosen, ended)
        )
        self.log.append(str(self.decisions[-1]))
        self._node = chosen or self._node
        self._begin_level()
        if is_last or self._evaluations_left == 0 or not self._quota:
            self._ladder.climb()

    def _rank(self, child: ChildScore) -> float:
        return math.inf if child.score is None else self._sign * child.score

    def describe(self) -> str:
        """Return the level and the current node."""
        if self._ladder.begun:
            return self._ladder.phase or "all levels explored"
        node = f"{self._node}" if self._node.operators else "the root"
        return f"level {self._level + 1} of {self.options.levels}, exploring {node}"

    def summary(self) -> dict[str, Any]:
        """Return the decisions as JSON data."""
        return {"decisions": [decision.to_json() for decision in self.decisions]}
