"""The observer of a running search."""

from __future__ import annotations

from typing import Any

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
        self,
        settings: Settings,
        searcher: Searcher,
        tally: Tally,
        workers: int,
        location: str,
        forecast: Any = None,
    ) -> None:
        """A search starts or is resumed; `searcher` and `tally` can be read in all later calls.

        So can `forecast`, whose `left(now)` estimates the seconds until the end of the study.
        """

    def stacked(self, stacking: Stacking) -> None:
        """It is known which runs are trained together or, if none are, the reason."""

    def resumed(self, recorded: int) -> None:
        """The study already has evaluations, which are reused."""

    def planned(self, plan: str) -> None:
        """A time budget was turned into a plan, described in one line."""

    def entered(self, phase: str, jobs: int) -> None:
        """A phase other than the search starts, with this many evaluations.

        Phases: `opponents` (their race), `tuning` (learning rates of the finalists at full length),
        `report` (the comparison on report seeds), `speed-up`, `checks`.
        """

    def evaluated(self, phase: str, evaluation: Evaluation) -> None:
        """One evaluation of a phase other than the search is done."""

    def rival(self, evaluation: Evaluation) -> None:
        """The best opponent so far is known, evaluated as candidates of the search are."""

    def told(self, candidate: Candidate, outcome: Outcome) -> None:
        """A candidate has been told; its evaluation is new or was recorded before."""

    def noted(self, line: str) -> None:
        """The searcher has made a decision, described in one line."""

    def finished(self) -> None:
        """The search has ended or was interrupted."""

    def interrupted(self) -> None:
        """An interrupt ended the search, which returns the study so far; after `finished`."""
