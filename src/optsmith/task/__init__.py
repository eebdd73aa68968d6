"""Tasks: what is trained, how it is scored, and the named ones."""

from optsmith.task._attack import AttackTask
from optsmith.task._base import Objective, Run, Task, check_device
from optsmith.task._function import FunctionTask
from optsmith.task._module import ModuleTask, accuracy
from optsmith.task._named import TaskEntry, find_task, tasks
from optsmith.task._protocol import Preset, Protocol, Stage, presets_for

__all__ = [
    "AttackTask",
    "FunctionTask",
    "ModuleTask",
    "Objective",
    "Preset",
    "Protocol",
    "Run",
    "Stage",
    "Task",
    "TaskEntry",
    "accuracy",
    "check_device",
    "find_task",
    "presets_for",
    "tasks",
]
