"""A look at the task before anything is searched."""

from __future__ import annotations

import math

import torch

from optsmith._errors import OptsmithError, TaskError
from optsmith.evaluation import train_once
from optsmith.rules import Rule
from optsmith.study._settings import Settings
from optsmith.task import Run, Task

STEPS = 2


def first_signal(task: Task, settings: Settings) -> float:
    """Return the signal of two steps of plain descent with a tiny learning rate.

    It shows at once that the task runs, and tells one task from another: a study goes on only with
    the model and data that it was made with.

    Raises:
        TaskError: The task fails, or gives nothing to score.
    """
    protocol = settings.protocol
    run = Run(
        Rule.parse("g"),
        lr=min(protocol.lrs) * 1e-3,
        seed=protocol.search_stage.lr_seed,
        steps=STEPS,
        device=torch.device(settings.device),
    )
    try:
        trace = train_once(task, run)
    except OptsmithError:
        raise
    except Exception as error:
        line = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise TaskError(f"the task {task.name} does not run: {line}") from error
    value = trace.signal[-1][1]
    if not math.isfinite(value):
        raise TaskError(f"the task {task.name} starts with a signal that is not finite: {value}")
    return value
