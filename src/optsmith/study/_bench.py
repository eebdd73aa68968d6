"""What a worker needs to know to evaluate: the task, and the operators that the user added."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from optsmith.evaluation import Evaluation, Status, evaluate_recipe
from optsmith.execution import Executor, Lost
from optsmith.optim import Baseline, Recipe, build
from optsmith.rules import BUILT_IN, Operator, operators
from optsmith.task import Stage, Task

Job = tuple[str, Recipe]
"""Name of the stage, and what to evaluate."""


def _added() -> tuple[Mapping[str, Any], ...]:
    """Return the operators that are not ours, field by field: pickling keeps only their name."""
    return tuple(
        {f.name: getattr(operator, f.name) for f in fields(Operator)}
        for name, operator in operators.items()
        if name not in BUILT_IN
    )


@dataclass(frozen=True)
class Bench:
    """Where evaluations are done; shipped once to each worker.

    Attributes:
        task: The task.
        stages: The ways to evaluate, by name.
        device: Where to train.
        added: The user's operators.
    """

    task: Task
    stages: Mapping[str, Stage]
    device: str = "cpu"
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


def evaluate_job(bench: Bench, job: Job) -> Evaluation:
    """Evaluate a recipe by one of the bench's stages."""
    stage, recipe = job
    return evaluate_recipe(bench.task, recipe, bench.stages[stage], bench.device)


def evaluate_all(executor: Executor, stage: str, recipes: Iterable[Recipe]) -> Iterator[Evaluation]:
    """Evaluate recipes on an executor that has nothing else to do; yield each as it is done."""
    waiting: dict[Hashable, Recipe] = {str(recipe): recipe for recipe in recipes}
    for name, recipe in waiting.items():
        executor.submit(name, (stage, recipe))
    while waiting:
        for name, result in executor.wait():
            yield as_evaluation(waiting.pop(name), result)


def as_evaluation(recipe: Recipe, result: Evaluation | Lost) -> Evaluation:
    """Return the record of a job, also when its process did not come back."""
    if isinstance(result, Evaluation):
        return result
    status = Status.TIMED_OUT if result.reason == "timed_out" else Status.FAILED
    return Evaluation(str(recipe), status, seconds=result.seconds, error=result.message)
