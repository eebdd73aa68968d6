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
from optsmith.training import Stacking, choose_stacking

SEARCH, FINAL = "search", "final"
"""Names of the two stages of a protocol."""

RACE, SELECTION, REPORT = "race", "selection", "report"
"""Names of the stages of a contest: opponents race, finalists are chosen, and reported."""

REFINE = "refine"
"""Name of the stage that compares forms of a rule at full length, at a fixed learning rate."""

ON_PROXY = (SEARCH, RACE)
"""Stages that train the proxy of the task, if there is one."""


@dataclass(frozen=True, slots=True)
class Job:
    """Recipes that are evaluated together, as plain data.

    Attributes:
        stage: Name of one of the context's stages.
        recipes: Texts of rules or baselines.
        fidelity: Share of the run's length.
        block: Block of seeds.
        lrs: The fixed learning rate of each recipe; None, or nothing at all: it is tuned.
        around: The learning rate of each recipe that was good in shorter runs, likewise.
    """

    stage: str
    recipes: tuple[str, ...]
    fidelity: float = 1.0
    block: int = 0
    lrs: tuple[float | None, ...] = ()
    around: tuple[float | None, ...] = ()


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
        proxy: A cheaper task that the search and the race train instead; None: the task itself.
        operators: Fields of user-defined operators.
    """

    task: Task
    stages: Mapping[str, Stage]
    stacking: Stacking
    device: str = "cpu"
    proxy: Task | None = None
    operators: tuple[Mapping[str, Any], ...] = field(default_factory=user_operators)


def prepare(context: Context) -> None:
    """Prepare a new process for jobs: register the user's operators and initialize torch."""
    for declared in context.operators:
        if declared["name"] in operators:
            operators.remove(declared["name"])  # a built-in operator that the user has redefined
        operators.register(Operator(**declared))
    import_all()


def import_all() -> None:
    """Import what jobs need: the first optimizer makes torch import modules for about a second."""
    build(Baseline("sgd"), [torch.zeros(1, requires_grad=True)], lr=0.0, total_steps=1)


def run_job(context: Context, job: Job) -> list[Evaluation]:
    """Evaluate the recipes of a job."""
    task, stacking = context.task, context.stacking
    if context.proxy is not None and job.stage in ON_PROXY:
        # A proxy may be another model, so what is stacked for the task need not fit it.
        task = context.proxy
        stacking = choose_stacking(task, torch.device(context.device))
    nothing = (None,) * len(job.recipes)
    rates = zip(job.lrs or nothing, job.around or nothing, strict=True)
    stage = context.stages[job.stage]
    stages = [stage.at(job.fidelity, job.block, lr, around) for lr, around in rates]
    recipes = [_recipe(text) for text in job.recipes]
    return evaluate_recipes(task, recipes, stages, context.device, stacking)


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
    if lost.is_machine:
        status = Status.LOST
    return Evaluation(
        recipe, status, seconds=lost.seconds, error=lost.message, traceback=lost.traceback
    )


def _recipe(text: str) -> Recipe:
    # Zoo names are not looked up: the text of a recipe is never a name of the zoo.
    return Baseline.parse(text) if is_baseline(text) else Rule.parse(text)
