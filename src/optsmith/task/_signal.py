"""What the signal of a module task is, and when and on how many examples it is measured."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from optsmith._errors import TaskError
from optsmith._registry import did_you_mean
from optsmith.task._metric import Measure, Metric, Objective

TRAINING, VALIDATION = "training loss", "validation loss"

REST, TAIL = 10, 5
"""Measurements before the last tenth of a run, and in it."""

SPACING = 12
"""The former are this fraction of a run apart, so that two are at a quarter and at half of it,
where learning rates are halved."""

FEWEST = 1024
"""Examples of one measurement, even if the run is trained on fewer."""


def choose_signal(
    objective: Objective | str | None, loss: Measure, metric: Metric | None
) -> tuple[Objective, Metric | None]:
    """Return the objective, and what is measured on held-out data; None for the training loss.

    Args:
        objective: The objective or its name: `training loss`, `validation loss`, or `validation`
            and the name of the metric. None is the metric if there is one, else the loss.
        loss: The task's loss.
        metric: The task's metric.

    Raises:
        TaskError: There is no such objective.
    """
    held_out = {VALIDATION: Metric(VALIDATION, loss, "", "minimize")}
    if metric is not None:
        held_out[f"validation {metric.name}"] = metric
    known = [TRAINING, *held_out]
    wanted: Any = known[-1] if objective is None else objective
    name = wanted.name if isinstance(wanted, Objective) else wanted
    found = next((n for n in (name, f"validation {name}") if n in known), None)
    if found is None:
        names = ", ".join(f'"{n}"' for n in known)
        hint = did_you_mean(str(name), known)
        raise TaskError(f'the objective must be one of {names}, not "{name}"{hint}')
    measured = held_out.get(found)
    direction = "minimize" if measured is None else measured.direction
    if isinstance(wanted, Objective):
        if wanted.direction != direction:
            raise TaskError(f'the direction of "{name}" is "{direction}"')
        return _with_report_name(wanted), measured
    if measured is None:
        return Objective(), None
    chosen = Objective(found, measured.direction, "tail", measured.unit)
    return _with_report_name(chosen), measured


def _with_report_name(objective: Objective) -> Objective:
    """Return an objective on validation data, which final runs measure on test data."""
    kind, _, name = objective.name.partition(" ")
    if kind != "validation" or objective.report_name:
        return objective
    return replace(objective, report_name=f"test {name}")


def test_metrics(loss: Measure, metric: Metric | None, objective: Objective) -> dict[str, Metric]:
    """Return the metrics measured on the test data at the end of a run, by name.

    A metric that is the score of final runs is not among them.
    """
    found = {"test loss": Metric("test loss", loss, "", "minimize", secondary=metric is not None)}
    if metric is not None:
        name = f"test {metric.name}"
        found[name] = replace(metric, name=name)
    return {name: m for name, m in found.items() if name != objective.report_name}


@lru_cache(maxsize=64)
def checkpoints(steps: int, every: int | None) -> frozenset[int]:
    """Return the steps of a run after which the held-out data is measured.

    Args:
        steps: Length of the run.
        every: Steps between measurements. None: five are in the last tenth of the run, or one per
            step if it has fewer steps, and ten before it.
    """
    if every is not None:
        return frozenset([*range(every, steps + 1, every), steps])
    rest = {-(-steps * i // SPACING) for i in range(1, REST + 1)}
    start = steps * 9 // 10
    return frozenset(rest | {start - (start - steps) * i // TAIL for i in range(1, TAIL + 1)})


def sample_size(examples: int, measurements: int) -> int:
    """Return the number of examples of one measurement in a run that is not final.

    All measurements of a run together have about as many examples as it is trained on, so that
    they take less time than the training.

    Args:
        examples: Number of examples that the run is trained on.
        measurements: Number of measurements of the run.
    """
    return max(FEWEST, examples // measurements)
