"""Paired comparison of two recipes that were trained on the same seeds.

Recipes share seeds, batches and images, so most of the noise is common to both and cancels in the
differences by seed. Seeds may be added while a comparison is not decided; interval and p-value are
corrected for these looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit

from optsmith.evaluation._evaluation import Evaluation
from optsmith.task import Direction, Metric, Objective, factor_of

LEVEL = 0.05
"""Largest probability of a claim when there is no difference."""

FEWEST = 5
"""With fewer seeds no claim is made."""

# Level of each look that keeps the level of all of them at 5 %. Pocock's constants (1977) hold for
# many seeds (0.0294, 0.0221, 0.0182, 0.0158); these hold for t statistics when the number of seeds
# doubles from 5 or more: benchmarks/claims.py.
_LEVELS = {1: LEVEL, 2: 0.0275, 3: 0.019, 4: 0.0148, 5: 0.012}

_ROUNDING = 1e-6
"""Relative differences that single precision can cause."""

_LARGEST = 700.0
"""Largest logarithm of a ratio that is a finite number."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The outcome of a paired comparison.

    Attributes:
        change: Relative change of the first recipe's values against the second's: -0.03 is 3 %
            less. NaN without a seed on which neither diverged.
        low: Lower end of its 95 % confidence interval; NaN if it is unknown, as with fewer than two
            seeds or a run that diverged.
        high: Upper end.
        p: Two-sided p-value, corrected for the looks; NaN with fewer than five seeds.
        seeds: Number of pairs.
        diverged: Number of pairs in which only the first recipe diverged.
        other_diverged: Number of pairs in which only the second recipe diverged.
    """

    change: float
    low: float
    high: float
    p: float
    seeds: int
    diverged: int = 0
    other_diverged: int = 0

    @property
    def decided(self) -> bool:
        """Whether the difference is significant; never with fewer than five seeds."""
        return self.p < LEVEL

    def in_unit(self, unit: str, reference: float | None) -> Paired:
        """Return the comparison with differences instead of relative changes of fractions.

        Args:
            unit: Unit of what is compared; 0.004 is 0.4 points then, if it is that of fractions.
            reference: Mean of the second recipe's values.
        """
        factor = printed_in(unit, reference)[0] / 100
        change, low, high = (factor * value for value in (self.change, self.low, self.high))
        return replace(self, change=change, low=low, high=high)

    def better(self, direction: Direction) -> bool | None:
        """Return whether the first recipe is better; None if that is not decided."""
        if not self.decided:
            return None
        if self.diverged != self.other_diverged:
            return self.diverged < self.other_diverged
        return (self.change < 0) == (direction == "minimize")


def printed_in(unit: str, reference: float | None) -> tuple[float, str]:
    """Return the factor from a relative change to what is printed, and the unit of that.

    Changes of fractions, such as accuracies, are printed in points: from 87.1 % to 87.5 % are 0.4
    points. All others are printed in percent.

    Args:
        unit: Unit of the quantity.
        reference: What the change is relative to; None or NaN if it is not known.
    """
    if factor_of(unit) == 1 or reference is None or not math.isfinite(reference):
        return 100.0, " %"
    return factor_of(unit) * abs(reference), " points"


def compare_evaluations(
    one: Evaluation, other: Evaluation, quantity: Objective | Metric, looks: int = 1
) -> Paired:
    """Compare two evaluations on the seeds that both have.

    Args:
        one: The first recipe's evaluation.
        other: The second one's.
        quantity: What is compared: the objective for scores, or a metric.
        looks: How many times the comparison will be looked at, at most, this time included.
    """
    return compare_paired(*on_common_seeds(one, other, quantity), looks, quantity.direction)


def on_common_seeds(
    one: Evaluation, other: Evaluation, quantity: Objective | Metric
) -> tuple[list[float], list[float]]:
    """Return the values of two evaluations on the seeds that both have, in the same order."""
    mine, its = (dict(zip(e.seeds, _values(e, quantity), strict=False)) for e in (one, other))
    common = [seed for seed in mine if seed in its]
    return [mine[seed] for seed in common], [its[seed] for seed in common]


def _values(evaluation: Evaluation, quantity: Objective | Metric) -> tuple[float, ...]:
    if isinstance(quantity, Metric):
        return evaluation.metrics.get(quantity.name, ())
    return evaluation.scores


def compare_paired(
    one: Sequence[float],
    other: Sequence[float],
    looks: int = 1,
    direction: Direction = "minimize",
) -> Paired:
    """Compare values of the same seeds, in the same order.

    Positive values are compared by their ratios, others by differences relative to the mean size of
    the second recipe's values. The interval is that of a t test.

    A value that is not finite is a run that diverged, and worse than any other. Then a mean says
    nothing: the change is a median, and the sign test decides. A recipe that diverged more often
    than the other one is never better.

    Args:
        one: Values of the first recipe, by seed.
        other: Values of the second one.
        looks: How many times the comparison will be looked at, at most, this time included.
        direction: Whether smaller or larger values are better.
    """
    a, b = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if len(a) != len(b):
        raise ValueError(f"values of different seeds cannot be paired: {len(a)} and {len(b)}")
    finite = np.isfinite(a) & np.isfinite(b)
    ratios, values = differences(a[finite], b[finite])
    level = _LEVELS.get(looks, LEVEL / looks)
    if not finite.all():
        return _by_signs(a, b, values, ratios, level, direction)
    count = len(values)
    mean = float(values.mean()) if count else math.nan
    if count < 2:
        return Paired(_change(mean, ratios), math.nan, math.nan, math.nan, count)
    low, high = t_interval(values, level)
    if count < FEWEST:
        p = math.nan
    elif np.abs(values).max() < _ROUNDING:
        p = 1.0
    elif low == high:  # no noise at all
        p = 0.0
    else:
        error = float(values.std(ddof=1)) / math.sqrt(count)
        p = min(1.0, 2 * float(stdtr(count - 1, -abs(mean) / error)) * LEVEL / level)
    change, low, high = (_change(value, ratios) for value in (mean, low, high))
    return Paired(change, low, high, p, count)


def differences(
    one: NDArray[np.float64], other: NDArray[np.float64]
) -> tuple[bool, NDArray[np.float64]]:
    """Return whether all values are positive, and then log ratios, else relative differences."""
    if (one > 0).all() and (other > 0).all():
        return True, np.log(one) - np.log(other)
    scale = float(np.abs(other).mean()) or 1.0
    return False, (one - other) / scale


def _change(value: float, ratios: bool) -> float:
    return math.expm1(min(value, _LARGEST)) if ratios else value


def t_interval(values: NDArray[np.float64], level: float = LEVEL) -> tuple[float, float]:
    """Return the confidence interval of the mean of at least two values."""
    mean, count = float(values.mean()), len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count)
    margin = float(stdtrit(count - 1, 1 - level / 2)) * error
    return mean - margin, mean + margin


def _by_signs(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    values: NDArray[np.float64],
    ratios: bool,
    level: float,
    direction: Direction,
) -> Paired:
    diverged = int((~np.isfinite(a) & np.isfinite(b)).sum())
    other_diverged = int((np.isfinite(a) & ~np.isfinite(b)).sum())
    gains = -values if direction == "minimize" else values
    wins = int((gains > 0).sum()) + other_diverged
    losses = int((gains < 0).sum()) + diverged
    median = float(np.median(values)) if len(values) else math.nan
    p = min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)) * LEVEL / level)
    if len(a) < FEWEST:
        p = math.nan
    elif median == 0 or (wins - losses) * (other_diverged - diverged) < 0:
        p = 1.0
    return Paired(_change(median, ratios), math.nan, math.nan, p, len(a), diverged, other_diverged)
