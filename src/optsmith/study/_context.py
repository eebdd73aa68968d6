"""Evaluation context sent to each worker, and the jobs that it evaluates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from optsmith.evaluation import Evaluation, Status, evaluate_recipes
from optsmith.execution import Executor, Lost
from optsmith.optim import Baseline, Recipe, build, is_baseline
from optsmith.rules import Operator, Rule, is_built_in, operators
from optsmith.task import Stage, Task
from optsmith.training import Stacking

SEARCH, FINAL = "search", "final"
"""Names of the two stages of a protocol."""


@dataclass(frozen=True, slots=True)
class Job:
    """Recipes that are evaluated together, as plain data.

    Attributes:
        stage: Name of one of the context's stages.
        recipes: Texts of rules or baselines.
        fidelity: Share of the run's length.
        block: Block of seeds.
        lr: A fixed learning rate; None: a learning rate is tuned for each recipe.
    """

    stage: str
    recipes: tuple[str, ...]
    fidelity: float = 1.0
    block: int = 0
    lr: float | None = None


def user_operators() -> tuple[Mapping[str, Any], ...]:
    """Return the fields of user-defined operators, because pickling keeps only their name."""
    return tuple(
        {f.name: getattr(operator, f.name) for f in fields(Operator)}
        for operator in operators.values()
        if not is_built_in(operator)
    )


@dataclass(frozen=True)
class Context:
    """Data that all jobs of an executor share.

    Attributes:
        task: The task.
        stages: Stages of the protocol, by name.
        stacking: Which runs are trained together.
        device: Device to train on.
        operators: Fields of user-defined operators.
    """

    task: Task
    stages: Mapping[str, Stage]
    stacking: Stacking
    device: str = "cpu"
    operators: tuple[Mapping[str, Any], ...] = field(default_factory=user_operators)


def prepare(context: Context) -> None:
    """Prepare a new process for jobs: register the user's operators and initialize torch."""
    for declared in context.operators:
        if declared["name"] in operators:
            operators.remove(declared["name"])  # a built-in operator that the user has redefined
        operators.register(Operator(**declared))
    # The first optimizer makes torch import modules for about a second.
    build(Baseline("sgd"), [torch.zeros(1, requires_grad=True)], lr=0.0, total_steps=1)


def run_job(context: Context, job: Job) -> list[Evaluation]:
    """Evaluate the recipes of a job."""
    stage = context.stages[job.stage].at(job.fidelity, job.block, job.lr)
    recipes = [_recipe(text) for text in job.recipes]
    return evaluate_recipes(context.task, recipes, stage, context.device, context.stacking)


def evaluate_all(
    executor: Executor, stage: str, recipes: Iterable[Recipe | str]
) -> Iterator[Evaluation]:
    """Evaluate recipes on an idle executor; yield each evaluation when it is done."""
    waiting: set[Hashable] = set()
    for text in dict.fromkeys(map(str, recipes)):
        waiting.add(text)
        executor.submit(text, Job(stage, (text,)))
    while waiting:
        for key, result in executor.wait():
            waiting.remove(key)
            yield lost_evaluation(str(key), result) if isinstance(result, Lost) else result[0]


def lost_evaluation(recipe: str, lost: Lost) -> Evaluation:
    """Return the evaluation of a job that the executor lost."""
    status = Status.TIMED_OUT if lost.reason == "timed_out" else Status.FAILED
    return Evaluation(recipe, status, seconds=lost.seconds, error=lost.message)


def _recipe(text: str) -> Recipe:
    # Zoo names are not looked up: the text of a recipe is never a name of the zoo.
    return Baseline.parse(text) if is_baseline(text) else Rule.parse(text)
