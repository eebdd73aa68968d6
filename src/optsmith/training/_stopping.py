"""Early-stopping criteria."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from optsmith.task import Objective

WINDOW = 4
"""Values per moving average of the loss."""

BETWEEN = (0.05, 0.20)
"""The fraction of the run in which a rising loss is detected, as (start, end)."""

RISING = 0.75
"""The fraction of these steps in which the moving average must have risen."""

REACHED_BY = {"mean": 0.10, "tail": 0.50, "last": 0.10}
"""The fraction of the run after which the signal must have been better than the threshold.

A score over the last tenth of a run may be good although the beginning is slow, for example with a
warm-up.
"""

NOT_FINITE = "the signal is not finite"

WORSE_HALF = "in the worse half at a rung"

RUNGS = (0.25, 0.5)
"""The fractions of the run after which the worse half of the learning rates is stopped."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """Early-stopping criteria of a run. A run whose signal is not finite is always stopped.

    Attributes:
        objective: The objective; its direction distinguishes losses from accuracies.
        early: Whether rising losses are stopped, and accuracies that do not reach the threshold, as
            in the paper; and, if the score is that of the last tenth, losses that do not either.
        threshold: The value to reach.
        halving: Whether runs that differ only in their learning rate are halved at each rung.
    """

    objective: Objective
    early: bool = False
    threshold: float | None = None
    halving: bool = False

    def is_rung(self, step: int, before: int, steps: int) -> bool:
        """Return whether runs are compared at `step`, given that the last check was at `before`."""
        return self.halving and any(before < part * steps <= step for part in RUNGS)

    def worse_half(self, signals: Sequence[Sequence[tuple[int, float]]]) -> list[int]:
        """Return the indices of the runs in the worse half; of equal runs, the first is better.

        All runs were measured at the same steps, so their scores so far are compared. If a run has
        not been measured yet, none is stopped.
        """
        if len(signals) < 2 or not all(signals):
            return []
        rank = [(self.objective.key(self.objective.score(s)), i) for i, s in enumerate(signals)]
        return sorted(i for _, i in sorted(rank)[-(-len(signals) // 2) :])

    def why(self, signal: Sequence[tuple[int, float]], steps: int, seen: int = 0) -> str:
        """Return why to stop a run; empty to continue.

        Args:
            signal: (step, value) of every step measured so far.
            steps: Length of the run.
            seen: Number of values at the last check, which did not stop the run.
        """
        if any(not math.isfinite(value) for _, value in signal[seen:]):
            return NOT_FINITE
        if not self.early:
            return ""
        if self.objective.direction == "minimize" and self.objective.over != "tail":
            return self._rising(signal, steps, seen)
        return self._not_reached(signal, steps)

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

    def _not_reached(self, signal: Sequence[tuple[int, float]], steps: int) -> str:
        part = REACHED_BY[self.objective.over]
        if self.threshold is None or not signal or signal[-1][0] < part * steps:
            return ""
        if any(self.objective.better(value, self.threshold) for _, value in signal):
            return ""
        word = "above" if self.objective.direction == "maximize" else "below"
        return f"not {word} {self.threshold:g} after {part:.0%} of the run"
