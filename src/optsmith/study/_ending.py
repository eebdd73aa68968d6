"""Reasons that end a search before its searcher is done.

Some are functions of what the searcher was told, so that a study that is repeated ends at the same
candidate. The others depend on the moment, and their decision is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optsmith._errors import StudyError
from optsmith.evaluation import Status
from optsmith.searchers import Candidate
from optsmith.study._tally import ACCEPTED, Tally


class Patience:
    """Ends a search after accepted candidates in a row that do not improve the best score.

    Scores are compared within one fidelity; the first candidate of a fidelity is an improvement.

    Args:
        limit: Number of accepted candidates without improvement.

    Raises:
        StudyError: The limit is not positive.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise StudyError(f"patience must be at least 1, not {limit}")
        self.limit = limit
        self._seen = self._since = 0
        self._best: dict[float, float] = {}

    def __call__(self, tally: Tally) -> str:
        """Return why the search ends; empty to continue."""
        for candidate, evaluation in tally.evaluated[self._seen :]:
            self._seen += 1
            if evaluation.status is Status.OK and evaluation.score is not None:
                self._add(candidate, tally.objective.key(evaluation.score))
        if self._since < self.limit:
            return ""
        return f"no better rule among {self.limit} accepted candidates"

    def _add(self, candidate: Candidate, key: float) -> None:
        self._since += 1
        if key < self._best.get(candidate.fidelity, float("inf")):
            self._best[candidate.fidelity] = key
            self._since = 0


class MaxCost:
    """Ends a search whose training has cost as much as it may.

    Args:
        runs: The training steps that it may take, in full runs.
        full: Steps of a full run.

    Raises:
        StudyError: The cost is not positive.
    """

    def __init__(self, runs: float, full: int) -> None:
        if not runs > 0:
            raise StudyError(f"max_cost must be above 0, not {runs:g}")
        self._runs, self._full = runs, full

    def __call__(self, tally: Tally) -> str:
        """Return why the search ends; empty to continue."""
        is_spent = tally.trained >= self._runs * self._full
        return f"it has trained {self._runs:g} full runs" if is_spent else ""


class SmallerBudget:
    """Ends a search that was started with a larger budget.

    The searcher keeps the budget that it was started with, because the candidates depend on it.

    Args:
        budget: Number of candidates to accept.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def __call__(self, tally: Tally) -> str:
        """Return why the search ends; empty to continue."""
        reached = tally.counts[ACCEPTED] >= self.budget
        return f"the budget was reduced to {self.budget}" if reached else ""


def finish_requested(_: Sequence[int]) -> str:
    """Return the reason of a study that is finished with the evaluations that it has."""
    return "the study was finished early"


class TimeIsUp:
    """Ends a search at a time, or before jobs that would take longer than that.

    Args:
        seconds: Returns the seconds of the study so far.
        until: Returns the seconds of the study at which the search ends.
        expected: Returns the expected seconds of jobs, given the candidates of each.
    """

    def __init__(
        self,
        seconds: Callable[[], float],
        until: Callable[[], float],
        expected: Callable[[Sequence[int]], float],
    ) -> None:
        self._seconds, self._until, self._expected = seconds, until, expected

    def __call__(self, jobs: Sequence[int]) -> str:
        """Return why the search ends; empty to continue."""
        end = self._seconds() + (self._expected(jobs) if jobs else 0.0)
        return "its share of the time is used" if end > self._until() else ""
