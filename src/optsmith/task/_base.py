"""The contract of a task: what is trained, and what signal it gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from optsmith._errors import TaskError
from optsmith.optim import Baseline, Recipe, baselines, build
from optsmith.task._protocol import Preset

if TYPE_CHECKING:
    from torch import nn

Signal = float | Tensor | None
Metrics = Mapping[str, float]
Training = Generator[Signal, None, Metrics | None]


@dataclass(frozen=True, slots=True)
class Objective:
    """What a score is.

    Attributes:
        name: For people, such as "training loss".
        direction: Whether smaller or larger is better.
        over: Whether a run's score is the mean of its signal or the last value.
    """

    name: str = "training loss"
    direction: Literal["minimize", "maximize"] = "minimize"
    over: Literal["mean", "last"] = "mean"

    def __post_init__(self) -> None:
        if self.direction not in ("minimize", "maximize"):
            raise TaskError(f'a direction is "minimize" or "maximize", not "{self.direction}"')
        if self.over not in ("mean", "last"):
            raise TaskError(f'a score is the "mean" or the "last" signal, not "{self.over}"')

    def better(self, score: float, other: float) -> bool:
        """Return whether `score` beats `other`; what is not a number beats nothing."""
        return score < other if self.direction == "minimize" else score > other

    def key(self, score: float) -> float:
        """Return a number that sorts better scores first."""
        return score if self.direction == "minimize" else -score

    def score(self, signal: Sequence[tuple[int, float]]) -> float:
        """Return the score of a run from its signal: (step, value) of every measured step."""
        values = [value for _, value in signal]
        return values[-1] if self.over == "last" else sum(values) / len(values)


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

    def optimizer(self, params: Iterable[Tensor]) -> Optimizer:
        """Return the run's optimizer over `params`: parameters or groups of them."""
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
        applied: What a step does with the rule's value, as a sentence.
        usage: Python code that uses a rule, with `{rule}` and `{lr}` in it; empty: an optimizer's.
    """

    name: str
    description: str
    objective: Objective
    presets: Mapping[str, Preset]
    baselines: Mapping[str, Baseline] = baselines
    applied: str = "Each step subtracts the learning rate times this from the parameters."
    usage: str = ""

    @abstractmethod
    def start(self, run: Run) -> Training:
        """Train once, as a generator.

        Yields after each of `run.steps` optimizer steps: the signal at that step as a number or a
        0-dim tensor (which need not be waited for), or None where nothing was measured; at least
        the last step has one. It may be closed at any step. Returns what was measured at the end,
        by name, or None; measures on held-out data only when `run.final`.
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

    @staticmethod
    def from_module(
        module: nn.Module | Callable[[], nn.Module],
        data: Any,
        loss: Callable[[Any, Any], Tensor],
        **settings: Any,
    ) -> Task:
        """Return a task that trains a module in the usual way; see `ModuleTask`."""
        from optsmith.task._module import ModuleTask

        return ModuleTask(module, data, loss, **settings)

    @staticmethod
    def from_function(function: Callable[[Run], Training], **settings: Any) -> Task:
        """Return a task that trains as a generator function does; see `FunctionTask`."""
        from optsmith.task._function import FunctionTask

        return FunctionTask(function, **settings)
