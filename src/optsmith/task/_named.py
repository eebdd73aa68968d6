"""The registry of tasks, and the lookup of a task by name or in a user's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optsmith._errors import TaskError
from optsmith._load import load
from optsmith._registry import Registry
from optsmith.task import _convnet, _mnistnet, _targets
from optsmith.task._base import Task


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A registered task, constructed on demand because that loads its data.

    Attributes:
        name: Name of the task.
        description: Description in one line.
        make: Function that constructs the task, given a data directory or None.
    """

    name: str
    description: str
    make: Callable[[Path | None], Task]


tasks: Registry[TaskEntry] = Registry("task")
for _variant in _mnistnet.VARIANTS:
    tasks.add(_variant.name, TaskEntry(_variant.name, _variant.description, _variant.make))
tasks.add("attack", TaskEntry("attack", _targets.DIGITS_DESCRIPTION, _targets.make_digits))
for _target in _targets.TARGETS:
    tasks.add(_target.name, TaskEntry(_target.name, _target.description, _target.make))
tasks.add("convnet", TaskEntry("convnet", _convnet.DESCRIPTION, _convnet.make))


def find_task(text: str, data_dir: Path | None = None) -> Task:
    """Return a task by its name, or from `file.py:name` or `package.module:name`.

    Raises:
        OptsmithError: There is no such task, or its data is not available.
    """
    if ":" in text:
        found: Task = load(text, "task", lambda value: isinstance(value, Task), TaskError)
    elif text in tasks:
        found = tasks[text].make(data_dir)
    else:
        error = tasks.unknown(text)
        raise TaskError(f"{error}; a task of your own is written file.py:name")
    object.__setattr__(found, "source", text)  # a user's task may be a frozen dataclass
    return found
