"""Optsmith finds a better optimizer for your training job.

The names exported here are the public API; everything else may change. Names that need torch are
imported on first use, so that the command line starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from optsmith._errors import (
    DataError,
    OptimizerError,
    OptsmithError,
    RuleError,
    SimplifyWarning,
    SpaceError,
    StudyError,
    TaskError,
    TaskFailure,
)
from optsmith._version import __version__
from optsmith._zoo import ZooEntry, zoo
from optsmith.rules import Operator, Parameter, Rule, State, operators
from optsmith.space import Constraint, Space, spaces

if TYPE_CHECKING:
    from optsmith.adversarial import attack
    from optsmith.evaluation import Evaluation, Status
    from optsmith.optim import Program, RuleOptimizer, decay_groups, roles
    from optsmith.screening import Screen, Screening, screen
    from optsmith.study import Finding, Observer, Study, evaluate, search
    from optsmith.task import Metric, Objective, Protocol, Run, Task, tasks

_NEED_TORCH = {
    "attack": "optsmith.adversarial",
    "Evaluation": "optsmith.evaluation",
    "Status": "optsmith.evaluation",
    "Program": "optsmith.optim",
    "RuleOptimizer": "optsmith.optim",
    "decay_groups": "optsmith.optim",
    "roles": "optsmith.optim",
    "Screen": "optsmith.screening",
    "Screening": "optsmith.screening",
    "screen": "optsmith.screening",
    "Finding": "optsmith.study",
    "Observer": "optsmith.study",
    "Study": "optsmith.study",
    "evaluate": "optsmith.study",
    "search": "optsmith.study",
    "Metric": "optsmith.task",
    "Objective": "optsmith.task",
    "Protocol": "optsmith.task",
    "Run": "optsmith.task",
    "Task": "optsmith.task",
    "tasks": "optsmith.task",
}

__all__ = [
    "Constraint",
    "DataError",
    "Evaluation",
    "Finding",
    "Metric",
    "Objective",
    "Observer",
    "Operator",
    "OptimizerError",
    "OptsmithError",
    "Parameter",
    "Program",
    "Protocol",
    "Rule",
    "RuleError",
    "RuleOptimizer",
    "Run",
    "Screen",
    "Screening",
    "SimplifyWarning",
    "Space",
    "SpaceError",
    "State",
    "Status",
    "Study",
    "StudyError",
    "Task",
    "TaskError",
    "TaskFailure",
    "ZooEntry",
    "__version__",
    "attack",
    "decay_groups",
    "evaluate",
    "operators",
    "roles",
    "screen",
    "search",
    "spaces",
    "tasks",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'optsmith' has no attribute {name!r}")
    value = getattr(import_module(_NEED_TORCH[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
