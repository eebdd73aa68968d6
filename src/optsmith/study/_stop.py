"""The end of a search before its searcher is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from optsmith.study._clock import Clock
from optsmith.study._tally import Tally

SEARCH_END = "search"
"""Name of the decision to end a search."""

Reason = Callable[[Tally], str]
"""Returns why a search ends now; empty to continue."""

Moment = Callable[[Sequence[int]], str]
"""The same for reasons that depend on the moment. Its argument are the sizes of the jobs that would
be started next; none while others run, which are waited for in any case."""


class Ending:
    """Says when a search ends early, and why; the default never does.

    The decision is stored with the number of draws told before it, so that a resumed study ends at
    the same candidate.

    Attributes:
        why: The reason; empty while the search goes on.
    """

    why = ""

    def reached(self) -> bool:
        """Return whether a stored decision ends the search before the next candidate is told."""
        return False

    def now(self, jobs: Sequence[int]) -> str:
        """Return why the search ends instead of starting jobs or waiting; empty to continue.

        Args:
            jobs: Number of candidates of each job that would be started.
        """
        return ""


class StoredEnding(Ending):
    """Ends a search for the first of several reasons.

    Args:
        clock: Stores a decision that depends on more than the outcomes.
        tally: The outcomes so far.
        budget: Budget of the search; a decision made with a smaller one no longer holds.
        outcomes: Reasons that depend only on the outcomes; they need not be stored.
        moment: Reasons that depend on the moment: the time, or a request to finish.
    """

    def __init__(
        self,
        clock: Clock,
        tally: Tally,
        budget: int,
        outcomes: Sequence[Reason] = (),
        moment: Sequence[Moment] = (),
    ) -> None:
        self._clock, self._tally, self._budget = clock, tally, budget
        self._outcomes, self._moment = outcomes, moment
        found: Any = clock.decided(SEARCH_END)
        self._stored = found if found and found["budget"] >= budget else None

    def reached(self) -> bool:
        """Return whether the outcomes, or the stored decision, end the search here."""
        if self._stored is not None and self._tally.drawn >= self._stored["told"]:
            self.why = self._stored["why"]
        found = filter(None, (reason(self._tally) for reason in self._outcomes))
        self.why = self.why or next(found, "")
        return bool(self.why)

    def now(self, jobs: Sequence[int]) -> str:
        """Return the first reason of the moment, and store the decision."""
        if self._stored is None:
            self.why = next(filter(None, (reason(jobs) for reason in self._moment)), "")
            if self.why:
                decision = {"told": self._tally.drawn, "why": self.why, "budget": self._budget}
                self._clock.store(SEARCH_END, decision)
        return self.why
