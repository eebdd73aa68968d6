"""When a run is hopeless."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optsmith.task import Objective

WINDOW = 4
"""Steps in the moving average of a loss."""

BETWEEN = (0.05, 0.20)
"""The part of the run in which a loss that keeps rising is given up."""

RISING = 0.75
"""The share of that part's steps in which the moving average must have risen."""

REACHED_BY = 0.10
"""The part of the run after which an accuracy must have reached the threshold."""

NOT_FINITE = "the signal is not finite"

BEHIND = "behind the others"

RUNGS = (0.25, 0.5)
"""The parts of the run after which the worse half of a grid's learning rates is given up."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """What ends a run early.

    Attributes:
        objective: Tells losses from accuracies.
        early: Whether hopeless runs are stopped; one that is not finite always is.
        threshold: What an accuracy has to reach.
        halving: Whether runs that differ in their learning rate alone race each other.
    """

    objective: Objective
    early: bool = False
    threshold: float | None = None
    halving: bool = False

    def is_rung(self, step: int, before: int, steps: int) -> bool:
        """Return whether runs are compared after `step`, the last look having been at `before`."""
        return self.halving and any(before < part * steps <= step for part in RUNGS)

    def behind(self, signals: Sequence[Sequence[tuple[int, float]]]) -> list[int]:
        """Return which of the runs that go on are not in the better half; the first of equals is.

        Every run has been measured at the same steps, so what is compared is what a score is made
        of; runs that have not been measured yet are all kept.
        """
        if len(signals) < 2 or not all(signals):
            return []
        rank = [(self.objective.key(self.objective.score(s)), i) for i, s in enumerate(signals)]
        return sorted(i for _, i in sorted(rank)[-(-len(signals) // 2) :])

    def why(self, signal: Sequence[tuple[int, float]], steps: int, seen: int = 0) -> str:
        """Return why to stop after `signal` of a run of `steps` steps; empty to go on.

        Args:
            signal: What was measured so far.
            steps: Length of the run.
            seen: How many of its values were there at the last look, which found nothing.
        """
        if any(not math.isfinite(value) for _, value in signal[seen:]):
            return NOT_FINITE
        if not self.early:
            return ""
        if self.objective.direction == "minimize":
            return self._rising(signal, steps, seen)
        return self._below(signal, steps)

    def _rising(self, signal: Sequence[tuple[int, float]], steps: int, seen: int) -> str:
        low, high = (part * steps for part in BETWEEN)
        judged = seen > 0 and signal[seen - 1][0] >= high
        if judged or not signal or signal[-1][0] < high:
            return ""
        values = [value for _, value in signal]
        averages = [
            sum(values[i - WINDOW + 1 : i + 1]) / WINDOW
            for i in range(WINDOW - 1, len(values))
            if low <= signal[i][0] <= high
        ]
        rises = [after > before for before, after in pairwise(averages)]
        return "the loss keeps rising" if sum(rises) > RISING * max(len(rises), 1) else ""

    def _below(self, signal: Sequence[tuple[int, float]], steps: int) -> str:
        if self.threshold is None or not signal or signal[-1][0] < REACHED_BY * steps:
            return ""
        if any(value > self.threshold for _, value in signal):
            return ""
        return f"not above {self.threshold:g} after {REACHED_BY:.0%} of the run"
