"""The named tasks, and how a command finds one by name or in a user's file."""

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
    """A task that can be made when its data is there.

    Attributes:
        name: Its name.
        description: One line for people.
        make: Makes it, given a directory to look for data in, or None.
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
        OptsmithError: There is no such task, or its data cannot be had.
    """
    if ":" in text:
        found: Task = load(text, "task", lambda value: isinstance(value, Task), TaskError)
        return found
    if text not in tasks:
        error = tasks.unknown(text)
        raise TaskError(f"{error}; your own is given as file.py:name")
    return tasks[text].make(data_dir)
