"""The named tasks, and how a command finds one by name or in a user's file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from optsmith._errors import OptsmithError, TaskError
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
        return _load(text)
    if text not in tasks:
        error = tasks.unknown(text)
        raise TaskError(f"{error}; your own is given as file.py:name")
    return tasks[text].make(data_dir)


def _load(text: str) -> Task:
    source, _, name = text.rpartition(":")
    try:
        module = _module(source)
    except OptsmithError:
        raise
    except Exception as error:
        raise TaskError(f"{source} cannot be imported: {type(error).__name__}: {error}") from error
    task = getattr(module, name, None)
    if not isinstance(task, Task):
        found = [key for key, value in vars(module).items() if isinstance(value, Task)]
        hint = f"; it has {', '.join(found)}" if found else ""
        raise TaskError(f'{source} has no task named "{name}"{hint}')
    return task


def _module(source: str) -> object:
    path = Path(source)
    if path.suffix != ".py":
        sys.path.insert(0, "")  # as `python -m` would
        return importlib.import_module(source)
    if not path.is_file():
        raise TaskError(f"there is no file {source}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TaskError(f"{source} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Beside the file, as when it is run as a script.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
