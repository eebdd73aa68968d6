"""Known rules as the first candidates of a search."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from optsmith.rules import Rule
from optsmith.searchers._base import Candidate
from optsmith.searchers._start import Start
from optsmith.space import Space

MOST = 4
"""Known rules take at most one in so many of the budget, unless the user has given more."""

STARTING = "starting points"
"""Phase of the candidates that are known rules."""


class WarmStart:
    """The first candidates of a search: known rules of its space.

    Rules that the user has given come first, and all of them are used. The others follow in their
    order, opponents before the zoo, as long as all together are at most a quarter of the budget.

    Args:
        space: The space; rules outside of it are left out.
        budget: The budget of the search.
        fidelity: Fidelity of the candidates.
    """

    def __init__(self, space: Space, budget: int, fidelity: float = 1.0) -> None:
        self.space, self.budget, self.fidelity = space, budget, fidelity
        self._queue: deque[Candidate] = deque()
        self._outstanding: set[str] = set()

    def begin(self, starts: Sequence[Start]) -> int:
        """Queue the rules to start from; return their number."""
        given = self._usable(s.rule for s in starts if s.origin == "given")[: self.budget]
        every = self._usable([*given, *(s.rule for s in starts)])
        chosen = every[: max(len(given), self.budget // MOST)]
        self._queue.extend(
            Candidate(f"start:{i}", rule, self.fidelity, phase=STARTING)
            for i, rule in enumerate(chosen)
        )
        return len(chosen)

    def _usable(self, rules: Iterable[Rule]) -> list[Rule]:
        """Return the rules of the space, each once."""
        return [rule for rule in dict.fromkeys(rules) if self.space.contains(rule)]

    @property
    def left(self) -> int:
        """Number of candidates that have not been told."""
        return len(self._queue) + len(self._outstanding)

    def ask(self, n: int) -> list[Candidate]:
        """Return at most `n` of the candidates."""
        found = [self._queue.popleft() for _ in range(min(n, len(self._queue)))]
        self._outstanding.update(candidate.id for candidate in found)
        return found

    def has(self, candidate: Candidate) -> bool:
        """Return whether a candidate is one of these, and has not been told."""
        return candidate.id in self._outstanding

    def tell(self, candidate: Candidate) -> bool:
        """Return whether a candidate that has an outcome is one of these."""
        is_start = self.has(candidate)
        self._outstanding.discard(candidate.id)
        return is_start
