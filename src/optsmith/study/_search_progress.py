"""How far a search is, and how long the rest of it takes."""

from __future__ import annotations

from optsmith.evaluation import Evaluation, Status
from optsmith.study._context import SEARCH
from optsmith.study._cost import rungs_of, work_of
from optsmith.study._rates import TRUST, Kind, Rate, Rates
from optsmith.task import Preset

MOST_IDLE = 2.0
"""Maximum factor for workers that wait for each other."""

VARIED_COST = 4.0
"""Usual cost of a candidate whose structure differs from that of the others in its stack, relative
to candidates that differ in constants only."""


class SearchProgress:
    """The progress of a search, in accepted candidates at full fidelity.

    Attributes:
        fraction: Fraction of the search that is over, as its searcher sees it; None: not known.
        varied_left: Varied candidates that are left, by their length; see `Candidate.varied`.
        trained: Training steps so far.
        loops_per_step: Loops per training step of its candidates.
    """

    def __init__(self, settings: Preset, rates: Rates, batch: int, workers: int) -> None:
        self.fraction: float | None = None
        self.varied_left = 0.0
        self.trained = 0.0
        self._total = settings.budget * sum(share * part for share, part in rungs_of(settings))
        works = work_of(settings, 0)[SEARCH]
        loops = sum(w.evaluations * rates.loops(Kind.RULE, w.runs, batch) for w in works)
        self._loops, self._runs = loops / self._total, works[0].runs
        self.loops_per_step = loops / sum(work.trained for work in works)
        self._counts_all = bool(settings.options.get("count_all")) or settings.fixed_lr
        self._full, self._workers, self._rates = settings.protocol.steps, workers, rates
        self._done, self._seen = 0.0, 0
        self._rate = Rate()  # seconds of work per candidate
        self._varied_rate = Rate()  # the same for varied ones
        self._varied_cost = VARIED_COST if rates.stacks else 1.0
        self._idle = Rate()  # seconds per second of work on every worker
        self._burst: tuple[float, float] | None = None  # both, of evaluations that arrive together

    def add(self, evaluation: Evaluation, elapsed: float, varied: bool = False) -> None:
        """Count an evaluation.

        Args:
            evaluation: The evaluation.
            elapsed: The time since the one before.
            varied: Whether it is of a varied candidate.
        """
        self.trained += evaluation.trained
        if self.fraction is None:
            counts = self._counts_all or evaluation.status is Status.OK
            units = evaluation.steps / self._full if counts else 0.0
        else:
            units = max(0.0, self.fraction * self._total - self._done)
        self._done += units
        (self._varied_rate if varied else self._rate).add(evaluation.seconds, units)
        self._seen += 1
        if elapsed > 0 and self._burst is not None:
            self._idle.add(*self._burst)
            self._burst = None
        if self._seen > 2 * self._workers:  # the first ones arrive before others under way
            before, work = self._burst or (0.0, 0.0)
            self._burst = before + elapsed, work + evaluation.seconds / self._workers

    def job(self, size: int) -> float:
        """Return the expected seconds of a job of so many candidates."""
        each = self._rates.loops(Kind.RULE, self._runs, size)
        return size * each * self._rates.per_loop(Kind.RULE, short=True)

    def left(self) -> float:
        """Return the seconds left."""
        per_unit, per_varied = self._per_unit()
        # Less than 1 is the replay of an earlier session, which takes no time.
        idle = min(max(1.0, self._idle.get()), MOST_IDLE) if self._idle.known else 1.0
        done = self._done if self.fraction is None else self.fraction * self._total
        # A search goes on until it is skipped, even if it takes longer than expected.
        left = max(self._total - done, 0.5)
        varied = min(left, self.varied_left)
        return ((left - varied) * per_unit + varied * per_varied) * idle / self._workers

    @property
    def varied_cost(self) -> float:
        """Cost of varied candidates, relative to those that differ in constants only."""
        per_unit, per_varied = self._per_unit()
        return per_varied / per_unit if per_unit > 0 else self._varied_cost

    def _per_unit(self) -> tuple[float, float]:
        """Return the seconds of a candidate, and of a varied one."""
        expected = self._loops * self._rates.per_loop(Kind.RULE, short=True)
        per_unit = _blended(self._rate, expected)
        return per_unit, _blended(self._varied_rate, self._varied_cost * per_unit)


def _blended(rate: Rate, expected: float) -> float:
    """Return a rate, with an expectation that weighs as much as `TRUST` candidates."""
    return (rate.over + TRUST * expected) / (rate.under + TRUST)
