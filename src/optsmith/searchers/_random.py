"""Random search, optionally with successive halving."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from optsmith._errors import OptsmithError
from optsmith.searchers._base import Candidate, Direction, Outcome, Searcher
from optsmith.searchers._draws import DRAWS_PER_LEVEL, EVALUATIONS_PER_BUDGET, draw
from optsmith.searchers._options import option
from optsmith.searchers._rungs import Rungs
from optsmith.space import Space


@dataclass(frozen=True)
class RandomOptions:
    """Options of random search."""

    rungs: str = option("1", "Fidelities of successive halving, such as 0.1,0.3,1.")
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
        self._rungs = Rungs.parse(self.options.rungs, direction)
        self._children = space.children(space.root)
        self._evaluations_left = math.ceil(EVALUATIONS_PER_BUDGET * budget)
        self._asked = self._counted = 0
        self._outstanding = 0  # candidates of this rung that have not been told
        self._promoted: deque[Candidate] = (
            deque()
        )  # candidates of this rung that have not been asked for
        self._drawing = True
        self._started = 0  # candidates that were promoted to this rung

    @property
    def need(self) -> int:
        """Number of evaluations that can be used before the rung ends."""
        if self._drawing:
            return min(self.budget - self._counted, self._evaluations_left)
        return self._outstanding + len(self._promoted)

    @property
    def spent(self) -> int:
        """Number of evaluations of the first rung counted in the budget."""
        return self._counted

    @property
    def done(self) -> float:
        """Rungs that are complete; the first may end because its draws are used."""
        if self._drawing:
            told = self._asked - self._outstanding
            share: float = max(self._counted / self.budget, told / self.options.draws)
        else:
            share = 1 - self.need / max(1, self._started)
        return (self._rungs.rung + share) / len(self._rungs.fidelities)

    def ask(self, n: int) -> list[Candidate]:
        """Return the next draws or promoted candidates."""
        if self._drawing and not self.need:
            found = []
        elif self._drawing:
            first = self._asked
            self._asked = min(first + n, self.options.draws)
            found = [self._draw(index) for index in range(first, self._asked)]
        else:
            found = [self._promoted.popleft() for _ in range(min(n, len(self._promoted)))]
        self._outstanding += len(found)
        return found

    def _draw(self, index: int) -> Candidate:
        _, rule = draw(self.space, self._children, self.seed, 0, index)
        return Candidate(f"0:{index}", rule, self._rungs.fidelity, phase=self._rungs.phase)

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether the rung of the candidate has ended."""
        return candidate.fidelity < self._rungs.fidelity or self._is_over

    @property
    def _is_over(self) -> bool:
        return self._rungs.is_last and not self.need

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the score, and start the next rung if this one is complete."""
        self._outstanding -= 1
        self._rungs.tell(candidate, outcome)
        if self._drawing:
            counts = outcome.evaluated if self.options.count_all else outcome.accepted
            self._counted += counts
            self._evaluations_left -= outcome.evaluated
        if not self._rungs.is_last and self._rung_ended():
            self._promote()

    def _rung_ended(self) -> bool:
        drawn = self._drawing and self._asked == self.options.draws and not self._outstanding
        return drawn or not self.need

    def _promote(self) -> None:
        ended = self._rungs.phase
        self._promoted.extend(self._rungs.promote())
        self._drawing, self._outstanding = False, 0
        self._started = len(self._promoted)
        self.log.append(f"{ended}: {len(self._promoted)} promoted to {self._rungs.phase}")

    def describe(self) -> str:
        """Return the current rung."""
        return f"{self._rungs.phase}: random rules" if self._rungs.phase else "drawing random rules"
