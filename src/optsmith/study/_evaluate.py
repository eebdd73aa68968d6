"""`optsmith.evaluate`: recipes compared on a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from optsmith._errors import TaskError
from optsmith.evaluation import Comparison, Evaluation
from optsmith.execution import Executor
from optsmith.optim import Recipe, parse_recipe
from optsmith.storage import Store
from optsmith.study._context import FINAL, Context, evaluate_all, prepare, run_job
from optsmith.study._executor import choose_executor
from optsmith.study._table import TableRecorder
from optsmith.task import Protocol, Task, check_device, find_task


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
    """Compare rules and baselines on a task, as the end of a search does.

    Each gets its learning rate from the same grid, on a seed that scores nothing, and is scored at
    full length on seeds and data that no search uses. With a study, each evaluation is kept when it
    is done, and the same call goes on from there.

    Args:
        task: The task, or the name of one.
        recipes: Rules or baselines, or their texts: a rule, a zoo name, `torch:adam+cosine`.
        preset: Name of the task's settings.
        protocol: How recipes are scored, instead of the preset's.
        workers: Processes that evaluate; 0 evaluates in this one. By default, one for each core.
        time_limit: Seconds that one evaluation may take; needs workers.
        device: Where to train.
        stack: Copies of the model per stack; by default chosen by the model's size.
        data_dir: Where to look for a named task's data first.
        storage: Directory or file of the journal of a study, or the URL of an Optuna storage.
        study: Name of a study to keep the evaluations in; needed for `storage`.
        executor: Runs the evaluations, instead of worker processes; started and closed here.
        observer: Called with each evaluation when it is done.

    Raises:
        OptsmithError: There is no such task or recipe, or the study is about something else.
    """
    with ExitStack() as resources:
        running = resources.enter_context(choose_executor(executor, workers, time_limit))
        parsed = (parse_recipe(r) if isinstance(r, str) else r for r in recipes)
        chosen = list(dict.fromkeys(map(str, parsed)))
        if not chosen:
            raise TaskError("there is nothing to evaluate: give a rule or a baseline")
        if storage is not None and study is None:
            raise TaskError("a storage needs the name of a study to keep the evaluations in")
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
        for evaluation in evaluate_all(running, FINAL, missing):
            recorder.keep(evaluation)
            observer(evaluation)
            rows.append(evaluation)
    return Comparison(task.objective, tuple(rows), task.metrics)
