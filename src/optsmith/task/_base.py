"""The abstract base class of tasks, and the description of one training run."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from optsmith._errors import TaskError
from optsmith._registry import did_you_mean
from optsmith.optim import Baseline, Parameters, Recipe, build, modern
from optsmith.task._metric import Metric, Objective
from optsmith.task._preset import Preset

if TYPE_CHECKING:
    from optsmith.task._function import FunctionTask
    from optsmith.task._module import ModuleTask

Signal = float | Tensor | None
Metrics = Mapping[str, float]
Training = Generator[Signal, None, Metrics | None]


class ResumableTraining(Generator[Signal, None, Metrics | None]):
    """A training run returned by `Task.start` that supports checkpoints.

    The caller saves and restores the state of torch's generators.
    """

    @abstractmethod
    def save(self) -> dict[str, Any]:
        """Return the state after the last step: tensors, numbers, strings and containers."""

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:
        """Restore a state saved by the same run; called before the first step.

        This may advance torch's generators; the caller restores them afterwards.
        """


@dataclass(frozen=True, slots=True)
class Run:
    """The settings of one training run.

    Attributes:
        recipe: The rule or baseline that trains the model.
        lr: The learning rate.
        seed: Seed of the initial weights, the data order and random masks. torch's generators are
            seeded with it before the run and restored afterwards.
        steps: Number of optimizer steps.
        final: Whether this is the final evaluation, which may use held-out data.
        device: The device to train on.
        built: The optimizers that the run has created.
    """

    recipe: Recipe
    lr: float
    seed: int
    steps: int
    final: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    built: list[Optimizer] = field(default_factory=list, compare=False, repr=False)

    def optimizer(self, params: Parameters) -> Optimizer:
        """Return a new optimizer for the run.

        Args:
            params: A module, parameters, named parameters or parameter groups. Recipes that depend
                on the roles of parameters need a module, or groups with a `role`.
        """
        optimizer = build(self.recipe, params, self.lr, self.steps, self.seed)
        self.built.append(optimizer)
        return optimizer

    def generator(self) -> torch.Generator:
        """Return a new CPU generator with the run's seed, for example to shuffle data."""
        return torch.Generator().manual_seed(self.seed)


def check_device(device: str) -> None:
    """Check that torch can allocate tensors on a device.

    Raises:
        TaskError: The device is unknown or not available.
    """
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        reason = str(error).partition("\n")[0][:200]
        raise TaskError(
            f'the device "{device}" is not available to torch ({reason}); use cpu'
        ) from None


class Task(ABC):
    """A model with its training data and the way it is scored.

    A task is immutable after construction: runs may be executed in other processes, in any order
    and repeatedly, and equal runs give equal signals. A task can be pickled with cloudpickle.

    Attributes:
        name: Name used in records and messages.
        description: Description in one line.
        objective: Definition of a score.
        presets: Presets by name; `quick` is the default, most tasks also have `paper` and `smoke`.
        baselines: Optimizers that rules are compared with, by name.
        metrics: Metrics measured at the end of a final run, by name. Metrics that are not declared
            are reported without a unit.
        notes: Sentences about the task that its user should know, such as how the data was split.
        applied: Sentence that says how a step applies the rule's value.
        usage: Template of Python code that uses a rule, with the fields `{rule}` and `{lr}`; if
            empty, code that constructs an optimizer is shown.
        source: Name of the task on the command line, set by `find_task`; empty if the task was
            constructed in Python.
    """

    name: str
    description: str
    objective: Objective
    presets: Mapping[str, Preset]
    baselines: Mapping[str, Baseline] = modern
    metrics: Mapping[str, Metric] = MappingProxyType({})
    notes: tuple[str, ...] = ()
    applied: str = "Each step subtracts the learning rate times this from the parameters."
    usage: str = ""
    source: str = ""

    @abstractmethod
    def start(self, run: Run) -> Training:
        """Return a generator that trains the model once.

        The generator yields after each of `run.steps` optimizer steps: the signal at that step as a
        number or a 0-dim tensor (which avoids waiting for the device), or None if nothing was
        measured. The last step must have a signal. The generator may be closed at any step. It
        returns the final metrics by name, or None; it measures on held-out data only if
        `run.final`. A `ResumableTraining` also supports checkpoints.
        """

    def preset(self, name: str) -> Preset:
        """Return a preset by name.

        Raises:
            TaskError: There is no preset of that name.
        """
        if name not in self.presets:
            raise TaskError(
                f'the task {self.name} has no preset "{name}"; it has {", ".join(self.presets)}'
            )
        return self.presets[name]

    def subset(self, share: float) -> Task:
        """Return the same task with a fixed random share of its training data.

        Args:
            share: Fraction of the training examples, between 0 and 1.

        Raises:
            TaskError: The task's training data cannot be divided, or the share is invalid.
        """
        raise TaskError(
            f"the training data of {self.name} cannot be divided, because the task has a training"
            " loop of its own"
        )

    # Assigned where the classes are defined, so that each has the signature of its class.
    from_module: ClassVar[type[ModuleTask]]
    from_function: ClassVar[type[FunctionTask]]


P = ParamSpec("P")
T = TypeVar("T")


def checked(make: Callable[P, T], name: str, returns: str) -> Callable[P, T]:
    """Return a constructor that suggests the closest setting when given an unknown one.

    Args:
        make: The task's class.
        name: The name of the constructor.
        returns: The type that `help` shows for the result.
    """
    signature = inspect.signature(make).replace(return_annotation=returns)

    @wraps(make, updated=())
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for setting in kwargs:
            if setting not in signature.parameters:
                hint = did_you_mean(setting, signature.parameters)
                raise TaskError(f'Task.{name} has no setting "{setting}"{hint}')
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TaskError(f"Task.{name}: {error}") from None
        return make(*args, **kwargs)

    call.__name__, call.__qualname__ = name, f"Task.{name}"
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
