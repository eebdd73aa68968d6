"""What is measured: metrics, their units and directions, and the objective of a search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from optsmith._errors import TaskError

Direction = Literal["minimize", "maximize"]
Measure = Callable[[Any, Any], Any]
"""From an output and what it is compared with to one number, a mean over examples."""

PERCENT = "%"
"""The unit of shares: values from 0 to 1, printed from 0 to 100."""


def factor_of(unit: str) -> float:
    """Return what values are multiplied by when they are printed in a unit."""
    return 100.0 if unit == PERCENT else 1.0


def _text(value: float, spread: float, unit: str) -> str:
    factor = factor_of(unit)
    decimals = 4 if factor == 1 else 2
    around = "" if math.isnan(spread) else f" ± {spread * factor:.{decimals}f}"
    return f"{value * factor:.{decimals}f}{around}{f' {unit}' if unit else ''}"


def _brief(value: float, unit: str) -> str:
    return f"{value * factor_of(unit):.4g}{f' {unit}' if unit else ''}"


def _check_direction(direction: str) -> None:
    if direction not in ("minimize", "maximize"):
        raise TaskError(f'a direction is "minimize" or "maximize", not "{direction}"')


@dataclass(frozen=True, slots=True)
class Metric:
    """Something that a task measures: what it is called, and how it is read.

    Called with an output and what it is compared with, it returns one number.

    Attributes:
        name: For people, such as "accuracy".
        function: Measures it; None when the task does so itself.
        unit: Printed after values; `%` is for shares, which are printed from 0 to 100.
        direction: Whether smaller or larger is better.
        secondary: Whether a terminal leaves it out when there are others to show.
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
        """Measure once."""
        if self.function is None:
            raise TaskError(f"the metric {self.name} has no function: its task measures it")
        return self.function(output, target)

    def text(self, value: float, spread: float = math.nan) -> str:
        """Return a value with its spread, if known, and unit, for tables."""
        return _text(value, spread, self.unit)


def as_metric(measure: Measure, direction: str | None = None) -> Metric:
    """Return a metric, given one or a plain function; a direction overrides its own."""
    metric = measure
    if not isinstance(metric, Metric):
        if not callable(measure):
            raise TaskError("a metric is an optsmith.Metric or a function of an output and target")
        name = getattr(measure, "__name__", "metric").replace("_", " ")
        metric = Metric(name, measure)
    chosen: Any = direction or metric.direction
    return Metric(metric.name, metric.function, metric.unit, chosen, metric.secondary)


def metrics_to_json(metrics: Mapping[str, Metric]) -> dict[str, dict[str, Any]]:
    """Return what is declared of metrics as plain data, by name, without their functions."""
    return {
        name: {"unit": m.unit, "direction": m.direction, "secondary": m.secondary}
        for name, m in metrics.items()
    }


def metrics_from_json(data: Mapping[str, Mapping[str, Any]]) -> dict[str, Metric]:
    """Return the metrics that `metrics_to_json` described."""
    return {name: Metric(name, None, **declared) for name, declared in data.items()}


def _share_correct(output: Tensor, target: Tensor) -> Tensor:
    return (output.argmax(dim=-1) == target).float().mean()


accuracy = Metric("accuracy", _share_correct, PERCENT)
"""The share of rows whose largest output is the target."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What a score is.

    Attributes:
        name: For people, such as "training loss".
        direction: Whether smaller or larger is better.
        over: Whether a run's score is the mean of its signal or the last value.
        unit: Printed after scores; `%` is for shares, which are printed from 0 to 100.
    """

    name: str = "training loss"
    direction: Direction = "minimize"
    over: Literal["mean", "last"] = "mean"
    unit: str = ""

    def __post_init__(self) -> None:
        _check_direction(self.direction)
        if self.over not in ("mean", "last"):
            raise TaskError(f'a score is the "mean" or the "last" signal, not "{self.over}"')

    def better(self, score: float, other: float) -> bool:
        """Return whether `score` beats `other`; what is not a number beats nothing."""
        return score < other if self.direction == "minimize" else score > other

    def key(self, score: float) -> float:
        """Return a number that sorts better scores first."""
        return score if self.direction == "minimize" else -score

    def score(self, signal: Sequence[tuple[int, float]]) -> float:
        """Return the score of a run from its signal: (step, value) of every measured step."""
        values = [value for _, value in signal]
        return values[-1] if self.over == "last" else sum(values) / len(values)

    def text(self, score: float, spread: float = math.nan) -> str:
        """Return a score with its spread, if known, and unit, for tables."""
        return _text(score, spread, self.unit)

    def brief(self, score: float) -> str:
        """Return a score to four significant digits, with its unit, for sentences."""
        return _brief(score, self.unit)
