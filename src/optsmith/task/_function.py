"""Tasks from any training loop, written as a generator."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from optsmith._errors import TaskError
from optsmith.task._base import Run, Task, Training, checked
from optsmith.task._metric import Metric, Objective
from optsmith.task._protocol import Preset, Protocol, presets_for


class FunctionTask(Task):
    """Trains as a generator function does.

    Args:
        function: Called with a `Run`; makes its model, takes `run.optimizer(model)`, trains
            for `run.steps` steps and yields the signal after each, as `Task.start` says. Given
            `run.seed`, everything in it is deterministic.
        steps: Optimizer steps of a full run.
        objective: What the score is; by default the mean of a signal that is a training loss.
        protocol: How recipes are scored; by default made from `steps`.
        presets: Named settings, instead of both.
        metrics: What the function returns at the end, if it has a unit or a direction; others are
            numbers without a unit.
        name: For records; by default the function's name.
        description: One line for people; by default the function's docstring.
    """

    def __init__(
        self,
        function: Callable[[Run], Training],
        *,
        steps: int | None = None,
        objective: Objective | None = None,
        protocol: Protocol | None = None,
        presets: Mapping[str, Preset] | None = None,
        metrics: Iterable[Metric] = (),
        name: str | None = None,
        description: str | None = None,
    ) -> None:
        if not inspect.isgeneratorfunction(function):
            raise TaskError(
                "Task.from_function takes a generator function: one that yields its training loss"
                " after each step"
            )
        self.function = function
        self.objective = objective or Objective()
        self.presets = choose_presets(steps, protocol, presets, self.objective)
        self.metrics = {metric.name: metric for metric in metrics}
        self.name = name or function.__name__
        self.description = description or (inspect.getdoc(function) or "").partition("\n")[0]

    def start(self, run: Run) -> Training:
        """Start the function."""
        return self.function(run)


Task.from_function = staticmethod(checked(FunctionTask, "from_function"))  # type: ignore[assignment]


def choose_presets(
    steps: int | None,
    protocol: Protocol | None,
    presets: Mapping[str, Preset] | None,
    objective: Objective,
    **settings: Any,
) -> Mapping[str, Preset]:
    """Return a task's presets from whichever of the three ways its user gave.

    Raises:
        TaskError: None was given, or more than one.
    """
    if sum(given is not None for given in (steps, protocol, presets)) != 1:
        raise TaskError("give one of steps, protocol and presets")
    if presets is not None:
        return presets
    # A universal threshold exists for losses and accuracies only (10 and 20 %).
    threshold = 10.0 if objective.direction == "minimize" else 0.2
    if steps is not None:
        return presets_for(steps, threshold=threshold, **settings)
    if protocol is None:
        raise TaskError("give one of steps, protocol and presets")
    return {"quick": Preset(protocol=protocol, budget=64), "paper": Preset(protocol=protocol)}
