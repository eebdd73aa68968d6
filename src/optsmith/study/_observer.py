"""What can be watched of a search while it runs."""

from __future__ import annotations

from optsmith.evaluation import Evaluation
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study._settings import Settings
from optsmith.study._tally import Tally
from optsmith.training import Stacking


class Observer:
    """Is told of everything that happens, on the coordinator's thread; does nothing with it.

    Subclasses show progress. What they raise ends the search as an interrupt would: all that is
    finished stays recorded.
    """

    def started(
        self, settings: Settings, searcher: Searcher, tally: Tally, workers: int, location: str
    ) -> None:
        """A search begins or goes on; `searcher` and `tally` can be read at any later call."""

    def stacked(self, stacking: Stacking) -> None:
        """It is known which runs are trained together, and if none, why."""

    def resumed(self, recorded: int) -> None:
        """The study already has evaluations, which are not done again."""

    def told(self, candidate: Candidate, outcome: Outcome) -> None:
        """A candidate has been told, be its evaluation new or recorded before."""

    def noted(self, line: str) -> None:
        """The searcher has decided something, described in a line."""

    def comparing(self, count: int) -> None:
        """The final evaluation of so many recipes begins."""

    def compared(self, evaluation: Evaluation) -> None:
        """One of them is done."""

    def finished(self) -> None:
        """The search is over, whether it got to its end or not."""
