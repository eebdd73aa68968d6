"""The rungs above the first, for searchers that draw on the first one."""

from __future__ import annotations

from collections import deque

from optsmith.searchers._base import Candidate, Direction, Outcome
from optsmith.searchers._rungs import Rungs


class Ladder:
    """Promotes the best candidates of a searcher once it has drawn all of them.

    A searcher draws on the first rung and reports every outcome. When it is done, it calls `climb`
    and leaves the rest of the search to the ladder. With one rung there is no more to do.

    Args:
        rungs: The fidelities, such as `0.1,0.3,1`.
        direction: Whether smaller or larger scores are better.
        log: Messages are appended here.

    Attributes:
        begun: Whether `climb` was called.

    Raises:
        OptsmithError: The fidelities are invalid.
    """

    def __init__(self, rungs: str, direction: Direction, log: list[str]) -> None:
        self.begun = False
        self._rungs = Rungs.parse(rungs, direction)
        self._log = log
        self._promoted: deque[Candidate] = deque()  # of this rung, not asked for yet
        self._outstanding = 0
        self._started = 0  # candidates that were promoted to this rung

    @property
    def fidelity(self) -> float:
        """The fidelity of the current rung."""
        return self._rungs.fidelity

    @property
    def phase(self) -> str:
        """Display name of the current rung; empty if there is only one."""
        return self._rungs.phase

    @property
    def need(self) -> int:
        """Number of promoted candidates that have not been told."""
        return self._outstanding + len(self._promoted)

    @property
    def is_over(self) -> bool:
        """Whether the last rung is complete."""
        return self.begun and not self.need

    def done(self, drawn: float) -> float:
        """Return the fraction of the rungs that is complete, given that of the first one."""
        share = 1 - self.need / max(1, self._started) if self.begun else min(1.0, drawn)
        return (self._rungs.rung + share) / len(self._rungs.fidelities)

    def climb(self) -> None:
        """Leave the first rung; its candidates that have not been told are obsolete."""
        self.begun = True
        self._promote()

    def ask(self, n: int) -> list[Candidate]:
        """Return at most `n` promoted candidates."""
        found = [self._promoted.popleft() for _ in range(min(n, len(self._promoted)))]
        self._outstanding += len(found)
        return found

    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Register the outcome of a candidate, drawn or promoted."""
        self._rungs.tell(candidate, outcome)
        if self.begun:
            self._outstanding -= 1
            self._promote()

    def obsolete(self, candidate: Candidate) -> bool:
        """Return whether the rung of an outstanding candidate has ended."""
        return candidate.fidelity < self.fidelity or self.is_over

    def _promote(self) -> None:
        """Start the next rung if this one is complete."""
        if self.need or self._rungs.is_last:
            return
        ended = self.phase
        self._promoted.extend(self._rungs.promote())
        self._started = len(self._promoted)
        self._log.append(f"{ended}: {len(self._promoted)} promoted to {self.phase}")
