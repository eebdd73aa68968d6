"""`optsmith.evaluate`: compares recipes on a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from optsmith._errors import TaskError
from optsmith.evaluation import Comparison, Evaluation
from optsmith.execution import Executor
from optsmith.optim import Program, Recipe, parse_recipe
from optsmith.rules import Rule, for_role
from optsmith.storage import Store
from optsmith.study._context import FINAL, Context, evaluate_all, prepare, run_job
from optsmith.study._executor import choose_executor
from optsmith.study._guard import Guard
from optsmith.study._table import TableRecorder
from optsmith.task import Protocol, Task, check_device, find_task


def check_rule(rule: Rule) -> None:
    """Raise a RuleError if a rule has no program, such as `orth` of a number."""
    for is_hidden in (True, False):
        Program(for_role(rule, is_hidden))


def evaluate(
    task: Task | str,
    recipes: Iterable[Recipe | str],
    *,
    preset: str = "quick",
    protocol: Protocol | None = None,
    workers: int | None = None,
    time_limit: float | None = None,
    device: str = "cpu",
    stack: int | None = None,
    data_dir: Path | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    executor: Executor | None = None,
    observer: Callable[[Evaluation], None] = lambda _: None,
) -> Comparison:
    """Compare rules and baselines on a task, like the final evaluation of a search.

    The learning rate of each recipe is tuned on a seed that is not used for scoring. Recipes are
    scored at full length, on seeds and data that searches do not use. With a study, each evaluation
    is stored when it is done, and the same call resumes the comparison.

    Args:
        task: The task, or the name of one.
        recipes: Rules or baselines, or their texts: a rule, a zoo name, `torch:adam+cosine`.
        preset: Name of a preset of the task.
        protocol: How recipes are scored; by default that of the preset.
        workers: Number of worker processes; 0: evaluate in this process. By default, one per core.
        time_limit: Seconds per evaluation; needs workers.
        device: Device to train on.
        stack: Copies of the model per stack; by default chosen by the model's size.
        data_dir: Directory that is searched first for the data of a named task.
        storage: Directory or file of the journal of a study, or the URL of an Optuna storage.
        study: Name of a study that stores the evaluations; needed for `storage`.
        executor: Runs the evaluations instead of worker processes; started and closed here.
        observer: Called with each evaluation when it is done.

    Raises:
        OptsmithError: There is no such task or recipe, the task cannot be trained, or the study has
            other settings.
    """
    with ExitStack() as resources:
        running = resources.enter_context(choose_executor(executor, workers, time_limit))
        parsed = [parse_recipe(r) if isinstance(r, str) else r for r in recipes]
        for recipe in parsed:
            if isinstance(recipe, Rule):
                check_rule(recipe)
        chosen = list(dict.fromkeys(map(str, parsed)))
        if not chosen:
            raise TaskError("there is nothing to evaluate: give a rule or a baseline")
        if storage is not None and study is None:
            raise TaskError("a storage needs the name of a study that stores the evaluations")
        if isinstance(task, str):
            task = find_task(task, data_dir)
        check_device(device)
        protocol = protocol or task.preset(preset).protocol
        recorder = TableRecorder(None)
        if study is not None:
            store = Store.open(storage, study, direction=task.objective.direction)
            recorder = TableRecorder(resources.enter_context(store))
        stacking = recorder.begin(task, protocol, device, stack)
        context = Context(task, {FINAL: protocol.final_stage}, stacking, device)
        running.start(run_job, context, prepare)
        rows = [row for row in map(recorder.known, chosen) if row is not None]
        missing = [name for name in chosen if recorder.known(name) is None]
        guard = Guard(task.name, None)
        for evaluation in evaluate_all(running, FINAL, missing):
            guard.check(evaluation)
            recorder.keep(evaluation)
            observer(evaluation)
            rows.append(evaluation)
    return Comparison(task.objective.reported, tuple(rows), task.metrics)
