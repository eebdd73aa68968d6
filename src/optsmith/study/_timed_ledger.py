"""Evaluations of the final comparison, as far as there is time for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from optsmith.evaluation import Evaluation
from optsmith.study._clock import Clock
from optsmith.study._forecast import Forecast
from optsmith.study._ledger import Entry, Ledger

TUNING, REPORTING, SPEED_UP, CHECKS = "tuning", "report", "speed-up", "checks"
"""Phases of the comparison."""


class TimedLedger:
    """A ledger that reports its phases and knows what there is still time for.

    Args:
        ledger: Evaluates and stores.
        clock: The time of the study.
        until: Seconds of the study after which optional parts are left out; None: no limit.
        block: Report seeds per evaluation.
        entered: Called with each phase and the number of its evaluations.
        forecast: Estimates the time of evaluations.
    """

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        until: float | None,
        block: int,
        entered: Callable[[str, int], None],
        forecast: Forecast,
    ) -> None:
        self._ledger, self.clock, self.until, self.block = ledger, clock, until, block
        self._entered, self._forecast = entered, forecast

    def evaluate(self, phase: str, entries: Sequence[Entry]) -> list[Evaluation]:
        """Evaluate the entries of a phase that are not stored, and return all of them."""
        self._entered(phase, self._ledger.missing(entries))
        return self._ledger.evaluate(phase, entries)

    def allows(self, what: str, entries: Sequence[Entry], factor: float = 1.0) -> bool:
        """Return whether there is time for optional evaluations: decided once, then stored.

        Args:
            what: Names the decision: the phase, if it is one of its own.
            entries: The evaluations.
            factor: How many times their work there is to be done in all.
        """
        until = self.until
        if until is None:
            return True
        seconds = factor * self.seconds(entries) + self._forecast.reserved()
        names = ",".join(sorted({entry.recipe for entry in entries}))
        return bool(
            self.clock.decide(
                f"{what} of {names}"[:200], lambda: self.clock.seconds() + seconds < until
            )
        )

    def seconds(self, entries: Sequence[Entry]) -> float:
        """Return the expected seconds of the entries that are not stored."""
        return self._forecast.seconds(self._ledger.jobs(entries))

    @property
    def varied_cost(self) -> float:
        """Cost of rules of different structure that are trained together, relative to others."""
        return self._forecast.varied_cost

    @property
    def trained(self) -> dict[str, int]:
        """Training steps of all evaluations, by purpose."""
        return self._ledger.trained

    def seconds_left(self) -> float:
        """Return the seconds until optional parts are left out."""
        return math.inf if self.until is None else max(0.0, self.until - self.clock.seconds())
