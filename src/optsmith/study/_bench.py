"""What a worker needs to know to evaluate: the task, and the operators that the user added."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from optsmith.evaluation import Evaluation, Status, evaluate_recipes
from optsmith.execution import Executor, Lost
from optsmith.optim import Baseline, Recipe, build
from optsmith.rules import BUILT_IN, Operator, operators
from optsmith.task import Stage, Task
from optsmith.training import Stacking

Job = tuple[str, Sequence[Recipe]]
"""Name of the stage, and what to evaluate side by side."""


def _added() -> tuple[Mapping[str, Any], ...]:
    """Return the operators that are not ours, field by field: pickling keeps only their name."""
    return tuple(
        {f.name: getattr(operator, f.name) for f in fields(Operator)}
        for name, operator in operators.items()
        if name not in BUILT_IN
    )


@dataclass
class Bench:
    """Where evaluations are done; shipped once to each worker, with its first job.

    Attributes:
        task: The task.
        stages: The ways to evaluate, by name.
        device: Where to train.
        stacking: Which runs are trained together; by default each worker finds out.
        added: The user's operators.
    """

    task: Task
    stages: Mapping[str, Stage]
    device: str = "cpu"
    stacking: Stacking | None = None
    added: tuple[Mapping[str, Any], ...] = field(default_factory=_added)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for declared in state["added"]:
            if declared["name"] not in operators:
                operators.register(Operator(**declared))
        self.__dict__.update(state)
        _warm_up()


def _warm_up() -> None:
    """Make torch import what its first optimizer needs, a second's work, while a worker starts."""
    build(Baseline("sgd"), [torch.zeros(1, requires_grad=True)], lr=0.0, total_steps=1)


def evaluate_job(bench: Bench, job: Job) -> list[Evaluation]:
    """Evaluate recipes by one of the bench's stages."""
    stage, recipes = job
    return evaluate_recipes(bench.task, recipes, bench.stages[stage], bench.device, bench.stacking)


def evaluate_all(executor: Executor, stage: str, recipes: Iterable[Recipe]) -> Iterator[Evaluation]:
    """Evaluate recipes on an executor that has nothing else to do; yield each as it is done."""
    waiting: dict[Hashable, Recipe] = {str(recipe): recipe for recipe in recipes}
    for name, recipe in waiting.items():
        executor.submit(name, (stage, [recipe]))
    while waiting:
        for name, result in executor.wait():
            recipe = waiting.pop(name)
            yield lost_evaluation(recipe, result) if isinstance(result, Lost) else result[0]


def lost_evaluation(recipe: Recipe, lost: Lost) -> Evaluation:
    """Return the record of an evaluation that did not come back."""
    status = Status.TIMED_OUT if lost.reason == "timed_out" else Status.FAILED
    return Evaluation(str(recipe), status, seconds=lost.seconds, error=lost.message)
