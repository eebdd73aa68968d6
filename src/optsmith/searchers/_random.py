"""Random search, optionally with successive halving."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher
from optsmith.searchers._draws import DRAWS_PER_LEVEL, EVALUATIONS_PER_BUDGET, draw
from optsmith.searchers._ladder import Ladder
from optsmith.searchers._options import option
from optsmith.searchers._rungs import RUNGS_HELP, Rungs
from optsmith.searchers._start import Start
from optsmith.searchers._warm import WarmStart
from optsmith.space import Space


@dataclass(frozen=True)
class RandomOptions:
    """Options of random search."""

    rungs: str = option("1", RUNGS_HELP)
    draws: int = option(4 * DRAWS_PER_LEVEL, "Maximum number of draws.")
    count_all: bool = option(False, "Count every evaluation in the budget, not only accepted ones.")

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise OptsmithError(f"draws must be at least 1, not {self.draws}")
        Rungs.parse(self.rungs)


class RandomSearch(Searcher):
    """Draws every candidate from the root of the super-tree.

    With several rungs, the budget applies to the first; the best candidates are promoted to longer
    runs.

    See `Searcher` for the arguments.
    """

    Options = RandomOptions

    def __init__(
        self,
        space: Space,
        budget: int,
        seed: int = 0,
        direction: Direction = "minimize",
        options: RandomOptions | None = None,
    ) -> None:
        super().__init__(space, budget, seed, direction, options)
        self._ladder = Ladder(self.options.rungs, direction, self.log)
        self._warm = WarmStart(space, budget, self._ladder.fidelity)
        self._children = space.children(space.root)
        self._evaluations_left = math.ceil(EVALUATIONS_PER_BUDGET * budget)
        self._asked = self._counted = 0
        self._outstanding = 0  # candidates of the first rung that have not been told

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
        told = self._asked - self._outstanding
        share = max(self._counted / self.budget, told / self.options.draws)
        return self._ladder.done(share)

    def ask(self, n: int) -> list[Candidate]:
        """Return the next known rules, draws or promoted candidates."""
        if self._ladder.begun:
            return self._ladder.ask(n)
        found = self._warm.ask(n)
        first = self._asked
        self._asked = min(first + n - len(found), self.options.draws)
        found += [self._draw(index) for index in range(first, self._asked)]
        self._outstanding += len(found)
        return found

    def _draw(self, index: int) -> Candidate:
        _, rule = draw(self.space, self._children, self.seed, 0, index)
        return Candidate(f"0:{index}", rule, self._ladder.fidelity, phase=self._ladder.phase)

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether the rung of the candidate has ended."""
        return self._ladder.obsolete(candidate)

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the score, and start the next rung if this one is complete."""
        is_drawn = not self._ladder.begun
        self._ladder.tell(candidate, outcome)
        if not is_drawn:
            return
        self._outstanding -= 1
        self._counted += outcome.evaluated if self.options.count_all else outcome.accepted
        self._evaluations_left -= outcome.evaluated
        all_drawn = self._asked == self.options.draws and not self._outstanding
        if all_drawn or not self.need:
            self._ladder.climb()

    def describe(self) -> str:
        """Return the current rung."""
        phase = self._ladder.phase
        return f"{phase}: random rules" if phase else "drawing random rules"
