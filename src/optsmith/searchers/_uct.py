"""Monte Carlo tree search with upper confidence bounds."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher, generator
from optsmith.searchers._draws import DRAWS_PER_LEVEL, EVALUATIONS_PER_BUDGET
from optsmith.searchers._ladder import Ladder
from optsmith.searchers._options import option
from optsmith.searchers._rungs import RUNGS_HELP, Rungs
from optsmith.searchers._start import Start
from optsmith.searchers._uct_path import most_drawn
from optsmith.searchers._uct_tree import UctTree
from optsmith.searchers._warm import WarmStart
from optsmith.space import Partial, Space

SHOWN = 4
"""Levels of the super-tree in the summary."""


@dataclass(frozen=True)
class UctOptions:
    """Options of the tree search with upper confidence bounds."""

    exploration: float = option(0.5, "Weight of the bonus of nodes with few draws.")
    widening: float = option(2.0, "Children to choose from per square root of a node's draws.")
    step: int = option(16, "Draws per step; they do not depend on each other's scores.")
    draws: int = option(4 * DRAWS_PER_LEVEL, "Maximum number of draws.")
    count_all: bool = option(False, "Count every evaluation in the budget, not only accepted ones.")
    rungs: str = option("1", RUNGS_HELP)

    def __post_init__(self) -> None:
        for name in ("step", "draws"):
            if getattr(self, name) < 1:
                raise OptsmithError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0 <= self.exploration < math.inf:
            raise OptsmithError(f"exploration must be at least 0, not {self.exploration:g}")
        if not 0 < self.widening < math.inf:
            raise OptsmithError(f"widening must be above 0, not {self.widening:g}")
        Rungs.parse(self.rungs)


class UctSearch(Searcher):
    """Draws below the node of the super-tree with the best upper confidence bound.

    Every draw descends from the root: at each node to the child whose draws were best on average,
    with a bonus for those with few draws, until a child without draws is due; it is completed at
    random. So good parts of the super-tree are searched closely, and none is left for good. See
    `UctTree` for the value of a node.

    Candidates are drawn in steps. A step depends on the outcomes of all steps but the last, so that
    one step is evaluated while the next is drawn.

    See `Searcher` for the arguments.
    """

    Options = UctOptions

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Direction = "minimize",
        options: UctOptions | None = None,
    ) -> None:
        super().__init__(space, budget, seed, direction, options)
        self._sign = 1 if direction == "minimize" else -1
        self._ladder = Ladder(self.options.rungs, direction, self.log)
        self._warm = WarmStart(space, budget, self._ladder.fidelity)
        self._tree = UctTree(space, self.options.exploration, self.options.widening)
        self._evaluations_left = math.ceil(EVALUATIONS_PER_BUDGET * budget)
        self._counted = 0
        self._drawn = self._told = self._learned = 0  # numbers of draws
        self._queue: deque[Candidate] = deque()  # drawn, not asked for yet
        self._outcomes: deque[tuple[Candidate, Outcome]] = deque()  # told, not in the tree yet
        self._history: list[tuple[Candidate, Outcome]] = []
        self._below: Counter[Partial] = Counter()  # draws by child of the root

    def begin(self, starts: Sequence[Start]) -> None:
        """Receive known rules, which are the first candidates."""
        self._warm.begin(starts)

    @property
    def need(self) -> int:
        """Number of evaluations that can be used before the rung ends."""
        if self._ladder.begun:
            return self._ladder.need
        return min(self.budget - self._counted, self._evaluations_left)

    @property
    def spent(self) -> int:
        """Number of evaluations of the first rung counted in the budget."""
        return self._counted

    @property
    def done(self) -> float:
        """Fraction of the rungs; the first may end because its draws are used."""
        share = max(self._counted / self.budget, self._told / self.options.draws)
        return self._ladder.done(share)

    # --- ask -------------------------------------------------------------------------------------

    def ask(self, n: int) -> list[Candidate]:
        """Return the next known rules, draws or promoted candidates."""
        if self._ladder.begun:
            return self._ladder.ask(n)
        found = self._warm.ask(n)
        while len(found) < n and (self._queue or self._draw_step()):
            found.append(self._queue.popleft())
        return found

    def _draw_step(self) -> bool:
        """Draw the next step; return whether there is one that depends on nothing untold."""
        needed = max(0, self._drawn - self.options.step)  # all steps but the last
        if self._warm.left or self._told < needed or self._is_drawn_out:
            return False
        while self._learned < needed:
            self._learned += 1
            self._learn(*self._outcomes.popleft())
        for index in range(self._drawn, min(self._drawn + self.options.step, self.options.draws)):
            rule = self._tree.draw(generator(self.seed, 0, index))
            if rule is None:
                break
            # The id is the rule: with a larger budget there are more known rules, so draws differ,
            # and an id must identify one rule.
            fidelity, phase = self._ladder.fidelity, self._ladder.phase
            self._queue.append(Candidate(str(rule), rule, fidelity, phase=phase))
        self._drawn += len(self._queue)
        return bool(self._queue)

    @property
    def _is_drawn_out(self) -> bool:
        return self._drawn == self.options.draws or self._tree.root.exhausted

    # --- tell ------------------------------------------------------------------------------------

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether the rung of the candidate has ended."""
        return self._ladder.obsolete(candidate)

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the outcome, and start the next rung if this one is complete."""
        is_promoted = self._ladder.begun
        self._ladder.tell(candidate, outcome)
        if is_promoted:
            return
        self._history.append((candidate, outcome))
        self._below[Partial(candidate.rule.operators[:1])] += 1
        self._counted += outcome.evaluated if self.options.count_all else outcome.accepted
        self._evaluations_left -= outcome.evaluated
        if self._warm.tell(candidate):
            self._tree.add(candidate.rule)
            self._learn(candidate, outcome)
        else:
            self._told += 1
            self._outcomes.append((candidate, outcome))
        all_told = self._told == self._drawn and not self._warm.left
        if not self.need or (all_told and self._is_drawn_out):
            self._ladder.climb()

    def _learn(self, candidate: Candidate, outcome: Outcome) -> None:
        if outcome.score is not None and math.isfinite(outcome.score):
            loss = self._sign * outcome.score
            self._tree.tell(candidate.rule, loss, outcome.key, outcome.accepted)

    # --- results ---------------------------------------------------------------------------------

    def describe(self) -> str:
        """Return the current rung, and below which child of the root most rules were drawn."""
        where = f"{len(self._history)} draws"
        if self._below:
            child, count = self._below.most_common(1)[0]
            where += f", {count} of them below {child}"
        return f"{self._ladder.phase}: {where}" if self._ladder.phase else where

    def summary(self) -> dict[str, Any]:
        """Return the path of most draws as JSON data."""
        levels = most_drawn(self.space, self._history, SHOWN)
        return {"decisions": [level.to_json() for level in levels]}
