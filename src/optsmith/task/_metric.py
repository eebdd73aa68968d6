"""Metrics with their units and directions, and the objective of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from optsmith._errors import TaskError

Direction = Literal["minimize", "maximize"]
Measure = Callable[[Any, Any], Any]
"""A function of an output and a target that returns one number, the mean over examples."""

PERCENT = "%"
"""The unit of fractions: values from 0 to 1, printed from 0 to 100."""


def factor_of(unit: str) -> float:
    """Return the factor by which values are multiplied when printed in a unit."""
    return 100.0 if unit == PERCENT else 1.0


def _text(value: float, spread: float, unit: str) -> str:
    factor = factor_of(unit)
    decimals = 4 if factor == 1 else 2
    around = "" if math.isnan(spread) else f" ± {spread * factor:.{decimals}f}"
    return f"{value * factor:.{decimals}f}{around}{f' {unit}' if unit else ''}"


def _check_direction(direction: str) -> None:
    if direction not in ("minimize", "maximize"):
        raise TaskError(f'direction must be "minimize" or "maximize", not "{direction}"')


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a task. Calling it with an output and a target returns its value.

    Attributes:
        name: Display name, such as "accuracy".
        function: Function of an output and a target; None if the task computes the metric itself.
        unit: Unit printed after values. Values in `%` are fractions, printed from 0 to 100.
        direction: Whether smaller or larger values are better.
        secondary: Whether terminal output omits the metric if there are others.
    """

    name: str
    function: Measure | None = None
    unit: str = ""
    direction: Direction = "maximize"
    secondary: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise TaskError("a metric needs a name")
        if self.function is not None and not callable(self.function):
            raise TaskError(f"the metric {self.name} needs a function of an output and a target")
        _check_direction(self.direction)

    def __call__(self, output: Any, target: Any) -> Any:
        """Return the metric's value for an output and a target."""
        if self.function is None:
            raise TaskError(f"the metric {self.name} has no function, because its task computes it")
        return self.function(output, target)

    def text(self, value: float, spread: float = math.nan) -> str:
        """Return a value with its unit, and its spread unless that is NaN, for tables."""
        return _text(value, spread, self.unit)


def as_metric(measure: Measure, direction: str | None = None) -> Metric:
    """Return a metric from a metric or a function; `direction` overrides the metric's own."""
    metric = measure
    if not isinstance(metric, Metric):
        if not callable(measure):
            raise TaskError(
                "a metric must be an optsmith.Metric or a function of an output and a target"
            )
        name = getattr(measure, "__name__", "metric").replace("_", " ")
        metric = Metric(name, measure)
    chosen: Any = direction or metric.direction
    return Metric(metric.name, metric.function, metric.unit, chosen, metric.secondary)


def _share_correct(output: Tensor, target: Tensor) -> Tensor:
    return (output.argmax(dim=-1) == target).float().mean()


accuracy = Metric("accuracy", _share_correct, PERCENT)
"""The fraction of rows whose largest output is the target class."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Definition of a score.

    Attributes:
        name: Display name, such as "training loss".
        direction: Whether smaller or larger scores are better.
        over: Which values of a run's signal the score is the mean of: all (`mean`), those in the
            last tenth of the run (`tail`), or only the `last`.
        unit: Unit printed after scores. Scores in `%` are fractions, printed from 0 to 100.
        report_name: Display name in final runs, if these measure it on other data: "test loss"
            instead of "validation loss".
    """

    name: str = "training loss"
    direction: Direction = "minimize"
    over: Literal["mean", "tail", "last"] = "mean"
    unit: str = ""
    report_name: str = ""

    def __post_init__(self) -> None:
        _check_direction(self.direction)
        if self.over not in ("mean", "tail", "last"):
            raise TaskError(f'over must be "mean", "tail" or "last", not "{self.over}"')

    @property
    def reported(self) -> Objective:
        """The objective under its name in final runs."""
        return replace(self, name=self.report_name or self.name)

    def better(self, score: float, other: float) -> bool:
        """Return whether `score` is better than `other`; False if either is NaN."""
        return score < other if self.direction == "minimize" else score > other

    def key(self, score: float) -> float:
        """Return a sort key that puts better scores first."""
        return score if self.direction == "minimize" else -score

    def score(self, signal: Sequence[tuple[int, float]]) -> float:
        """Return the score of a run, given (step, value) of every measured step.

        The signal may be that of the beginning of a run, which then ends at its last measured step.
        """
        last, value = signal[-1]
        if self.over == "last":
            return value
        values = [v for step, v in signal if self.over == "mean" or 10 * step > 9 * last]
        return sum(values) / len(values)

    def text(self, score: float, spread: float = math.nan) -> str:
        """Return a score with its unit, and its spread unless that is NaN, for tables."""
        return _text(score, spread, self.unit)

    def brief(self, score: float) -> str:
        """Return a score with its unit to four significant digits, for running text."""
        unit = f" {self.unit}" if self.unit else ""
        return f"{score * factor_of(self.unit):.4g}{unit}"
