"""Tasks defined by a training loop written as a generator function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from optsmith._errors import TaskError
from optsmith.task._base import Run, Task, Training, checked
from optsmith.task._metric import Metric, Objective
from optsmith.task._preset import Preset, presets_for
from optsmith.task._protocol import Protocol


class FunctionTask(Task):
    """A task whose training loop is a generator function.

    Args:
        function: Called with a `Run`. It creates the model, gets an optimizer from
            `run.optimizer(model)`, trains for `run.steps` steps and yields the signal after each
            step, see `Task.start`. It must be deterministic given `run.seed`.
        steps: Optimizer steps of a full run.
        objective: What the yielded signal is, and how a run is scored by it, such as
            `Objective("validation loss", over="tail")`: `over` is `mean` for the mean of all
            yielded values, `tail` for that of the last tenth of the run, and `last` for the last
            value. By default the signal is a training loss, and the score its mean.
        protocol: How recipes are scored; derived from `steps` by default.
        presets: Presets by name, instead of `steps` or `protocol`.
        metrics: Declarations of the metrics that the function returns; metrics that are not
            declared are reported without a unit.
        name: Name of the task; by default the function's name.
        description: Description in one line; by default the first line of the function's docstring.
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
                "Task.from_function takes a generator function that yields its training loss after"
                " each step"
            )
        self.function = function
        self.objective = objective or Objective()
        self.presets = choose_presets(steps, protocol, presets, self.objective)
        self.metrics = {metric.name: metric for metric in metrics}
        self.name = name or function.__name__
        self.description = description or (inspect.getdoc(function) or "").partition("\n")[0]

    def start(self, run: Run) -> Training:
        """Return the function's generator for a run."""
        return self.function(run)


Task.from_function = staticmethod(checked(FunctionTask, "from_function", "FunctionTask"))  # type: ignore[assignment]


def choose_presets(
    steps: int | None,
    protocol: Protocol | None,
    presets: Mapping[str, Preset] | None,
    objective: Objective,
    **settings: Any,
) -> Mapping[str, Preset]:
    """Return a task's presets, given exactly one of `steps`, `protocol` and `presets`.

    Raises:
        TaskError: None of them was given, or more than one.
    """
    given = [value for value in (steps, protocol, presets) if value is not None]
    if len(given) != 1:
        raise TaskError("give exactly one of steps, protocol and presets")
    (chosen,) = given
    if isinstance(chosen, Mapping):
        return chosen
    if isinstance(chosen, Protocol):
        return {
            "quick": Preset(protocol=chosen, budget=64),
            "paper": Preset(protocol=chosen, warm_start=False),
        }
    # The thresholds of the paper, for losses and for accuracies.
    threshold = 10.0 if objective.direction == "minimize" else 0.2
    return presets_for(chosen, threshold=threshold, **settings)
