"""Tasks: models with their training data, objective and protocol, and the registry of them."""

from optsmith.task._attack import AttackTask
from optsmith.task._base import Metrics, ResumableTraining, Run, Task, Training, check_device
from optsmith.task._batch import Batch
from optsmith.task._batches import RefitBatches
from optsmith.task._function import FunctionTask
from optsmith.task._loader import LoaderBatches
from optsmith.task._metric import (
    Direction,
    Metric,
    Objective,
    accuracy,
    factor_of,
)
from optsmith.task._module import ModuleTask
from optsmith.task._named import TaskEntry, find_task, tasks
from optsmith.task._preset import Contest, Preset, presets_for
from optsmith.task._protocol import UNTRAINED, Protocol, Stage
from optsmith.task._random import RandomState, random_state, seeded, set_random_state
from optsmith.task._tensors import TensorBatches

__all__ = [
    "UNTRAINED",
    "AttackTask",
    "Batch",
    "Contest",
    "Direction",
    "FunctionTask",
    "LoaderBatches",
    "Metric",
    "Metrics",
    "ModuleTask",
    "Objective",
    "Preset",
    "Protocol",
    "RandomState",
    "RefitBatches",
    "ResumableTraining",
    "Run",
    "Stage",
    "Task",
    "TaskEntry",
    "TensorBatches",
    "Training",
    "accuracy",
    "check_device",
    "factor_of",
    "find_task",
    "presets_for",
    "random_state",
    "seeded",
    "set_random_state",
    "tasks",
]
