"""The observer of a running search."""

from __future__ import annotations

from optsmith.evaluation import Evaluation
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study._settings import Settings
from optsmith.study._tally import Tally
from optsmith.training import Stacking


class Observer:
    """Is notified of all events, on the coordinator's thread; does nothing.

    Subclasses display progress. An exception that they raise ends the search like an interrupt:
    finished evaluations stay recorded.
    """

    def started(
        self, settings: Settings, searcher: Searcher, tally: Tally, workers: int, location: str
    ) -> None:
        """A search starts or is resumed; `searcher` and `tally` can be read in all later calls."""

    def stacked(self, stacking: Stacking) -> None:
        """It is known which runs are trained together or, if none are, the reason."""

    def resumed(self, recorded: int) -> None:
        """The study already has evaluations, which are reused."""

    def told(self, candidate: Candidate, outcome: Outcome) -> None:
        """A candidate has been told; its evaluation is new or was recorded before."""

    def noted(self, line: str) -> None:
        """The searcher has made a decision, described in one line."""

    def comparing(self, count: int) -> None:
        """The final evaluation of `count` recipes starts."""

    def compared(self, evaluation: Evaluation) -> None:
        """The final evaluation of one recipe is done."""

    def finished(self) -> None:
        """The search has ended or was interrupted."""
