"""Identification of a task by its first training signal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from optsmith._errors import OptsmithError, StudyError, TaskError
from optsmith.rules import Rule
from optsmith.task import Protocol, Run, Task
from optsmith.training import Stacking, choose_stacking, train_once

STEPS = 2


def first_signal(task: Task, protocol: Protocol, device: str) -> float:
    """Return the signal of two steps of plain descent with a tiny learning rate.

    It shows that the task runs, and identifies its model and data: a study is resumed only with
    the model and data that it was created with.

    Raises:
        TaskError: The task fails, or its signal is not finite.
    """
    run = Run(
        Rule.parse("g"),
        lr=min(protocol.lrs) * 1e-3,
        seed=protocol.search_stage.lr_seed,
        steps=STEPS,
        device=torch.device(device),
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


def check_signal(now: float, before: float, study: str) -> None:
    """Check that a task is the one that a study was created with.

    Raises:
        StudyError: Its first signal differs.
    """
    if not abs(now - before) <= 1e-3 * abs(before):
        raise StudyError(
            f"the study {study} was made with another model or data: the task's signal"
            f" after two steps was {before:.6g}, now it is {now:.6g}; give another --study"
        )


def stacking_of(
    task: Task, device: str, stack: int | None, stored: Mapping[str, Any] | None = None
) -> Stacking:
    """Return which runs are trained together: as stored in a study, or chosen now.

    Args:
        task: The task.
        device: Where it is trained.
        stack: Copies per stack; None: chosen by the model's size.
        stored: The stacking that a study has stored.
    """
    return Stacking(**stored) if stored else choose_stacking(task, torch.device(device), stack)
