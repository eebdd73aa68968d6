"""The contract of a task: what is trained, and what signal it gives."""

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
from optsmith.optim import Baseline, Parameters, Recipe, baselines, build
from optsmith.task._metric import Metric, Objective
from optsmith.task._protocol import Preset

if TYPE_CHECKING:
    from optsmith.task._function import FunctionTask
    from optsmith.task._module import ModuleTask

Signal = float | Tensor | None
Metrics = Mapping[str, float]
Training = Generator[Signal, None, Metrics | None]


class ResumableTraining(Generator[Signal, None, Metrics | None]):
    """A training run, as `Task.start` returns it, that can be saved and continued.

    The state of torch's generators is saved and restored by the caller.
    """

    @abstractmethod
    def save(self) -> dict[str, Any]:
        """Return its state after the last step: tensors, numbers, text, and containers of these."""

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state of the same run; called before the first step.

        It may draw from torch's generators, which the caller restores afterwards.
        """


@dataclass(frozen=True, slots=True)
class Run:
    """One training run that a task is asked for.

    Attributes:
        recipe: What trains.
        lr: Its learning rate.
        seed: Seed of everything random: weights, order of the data, masks. torch's generator is
            seeded with it before the run starts, and put back after.
        steps: Optimizer steps.
        final: Whether this is the final evaluation, which may use what a search must not see.
        device: Where to train.
    """

    recipe: Recipe
    lr: float
    seed: int
    steps: int
    final: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    built: list[Optimizer] = field(default_factory=list, compare=False, repr=False)

    def optimizer(self, params: Parameters) -> Optimizer:
        """Return the run's optimizer.

        Args:
            params: A module, parameters, named parameters, or groups of them. Recipes that treat
                parameters by their role need a module, or groups with a `role`.
        """
        optimizer = build(self.recipe, params, self.lr, self.steps, self.seed)
        self.built.append(optimizer)
        return optimizer

    def generator(self) -> torch.Generator:
        """Return a generator of the run's own, on the CPU, for orders of data and the like."""
        return torch.Generator().manual_seed(self.seed)


def check_device(device: str) -> None:
    """Check that torch can train there.

    Raises:
        TaskError: It cannot.
    """
    try:
        torch.zeros(1, device=device)
    except Exception as error:
        reason = str(error).partition("\n")[0][:200]
        raise TaskError(
            f'"{device}" is not a device that torch has here ({reason}); cpu is'
        ) from None


class Task(ABC):
    """What is trained and how it is scored.

    A task is read-only once made: runs may happen in other processes, in any order, any number of
    times, and the same run gives the same signal. It can be pickled by cloudpickle.

    Attributes:
        name: For records and messages.
        description: One line for people.
        objective: What a score is.
        presets: Named settings; `quick` is the default, `paper` and `smoke` are usual.
        baselines: What rules are compared with, by name.
        metrics: What it measures at the end of a run, by name; those that are not declared are
            numbers without a unit.
        applied: What a step does with the rule's value, as a sentence.
        usage: Python code that uses a rule, with `{rule}` and `{lr}` in it; empty: an optimizer's.
    """

    name: str
    description: str
    objective: Objective
    presets: Mapping[str, Preset]
    baselines: Mapping[str, Baseline] = baselines
    metrics: Mapping[str, Metric] = MappingProxyType({})
    applied: str = "Each step subtracts the learning rate times this from the parameters."
    usage: str = ""

    @abstractmethod
    def start(self, run: Run) -> Training:
        """Train once, as a generator.

        Yields after each of `run.steps` optimizer steps: the signal at that step as a number or a
        0-dim tensor (which need not be waited for), or None where nothing was measured; at least
        the last step has one. It may be closed at any step. Returns what was measured at the end,
        by name, or None; measures on held-out data only when `run.final`. A `ResumableTraining`
        can be saved too.
        """

    def preset(self, name: str) -> Preset:
        """Return a preset by name.

        Raises:
            TaskError: There is none of that name.
        """
        if name not in self.presets:
            raise TaskError(
                f'the task {self.name} has no preset "{name}"; it has {", ".join(self.presets)}'
            )
        return self.presets[name]

    # Set where the two are defined, so that they have the signatures of what they make.
    from_module: ClassVar[type[ModuleTask]]
    from_function: ClassVar[type[FunctionTask]]


P = ParamSpec("P")
T = TypeVar("T")


def checked(make: Callable[P, T], name: str) -> Callable[P, T]:
    """Return a function that makes a task, and says what may be meant by an unknown setting.

    Args:
        make: The class of the task.
        name: What the function is called.
    """
    signature = inspect.signature(make)

    @wraps(make, updated=())
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for setting in kwargs:
            if setting not in signature.parameters:
                hint = did_you_mean(setting, signature.parameters)
                raise TaskError(f'Task.{name} has no setting "{setting}"{hint}')
        return make(*args, **kwargs)

    call.__name__, call.__qualname__ = name, f"Task.{name}"
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
