"""Facts about a task that stay the same in all sessions of a study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from optsmith._errors import StudyError
from optsmith.task import Task
from optsmith.training import Stacking, choose_stacking


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
