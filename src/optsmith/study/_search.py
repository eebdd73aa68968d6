"""`optsmith.search`: runs a search and returns its study."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from optsmith.execution import Executor
from optsmith.optim import Baseline
from optsmith.searchers import Searcher
from optsmith.space import Space
from optsmith.storage import Store, list_studies
from optsmith.study._begin import begin, check, plan_settings, without_roles
from optsmith.study._context import import_all
from optsmith.study._executor import choose_executor
from optsmith.study._ledger import ledger_evaluations
from optsmith.study._observer import Observer
from optsmith.study._phases import run_phases
from optsmith.study._prepare import Asked, asked_again, prepare_search
from optsmith.study._start_from import StartSource, with_starts
from optsmith.study._study import Study
from optsmith.task import Protocol, Task


def search(
    task: Task | str,
    space: Space | str | None = None,
    algorithm: str | type[Searcher] | None = None,
    budget: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    *,
    max_time: float | str | None = None,
    patience: int | None = None,
    max_cost: float | None = None,
    finish: bool = False,
    proxy: str | Task | None = None,
    start_from: StartSource | Iterable[StartSource] | None = None,
    warm_start: bool | None = None,
    baselines: str | Iterable[str | Baseline] | None = None,
    options: Mapping[str, Any] | None = None,
    preset: str = "quick",
    protocol: Protocol | None = None,
    proposals: int | None = None,
    descent: bool | None = None,
    trajectory: bool | None = None,
    dedupe: str | None = None,
    max_state_bytes: float | None = None,
    max_step_cost: float | None = None,
    refine: bool | None = None,
    equally_tuned: bool | None = None,
    time_limit: float | None = None,
    device: str = "cpu",
    stack: int | None = None,
    data_dir: Path | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    observer: Observer | None = None,
) -> Study:
    """Search for the rule that trains a task best, and compare the best rules with opponents.

    Calling it again with the same settings resumes an interrupted search, and returns the study of
    a finished one. The same settings give the same study with any number of workers. An interrupt
    (Ctrl-C) returns the study so far; before the first recorded evaluation it is raised.

    Args:
        task: The task, or the name of one.
        space: The space, or the name of one; by default that of the preset.
        algorithm: Name of a searcher, `file.py:Class`, or a class; by default that of the preset,
            or the tree search if a space other than `modern` is given.
        budget: Number of candidates to accept; by default that of the preset. With a smaller budget
            than the study was made with, its search ends.
        seed: Seed of the search.
        workers: Number of worker processes; 0: evaluate in this process. By default, one per core.
        storage: Directory or file of the journal, or the URL of an Optuna storage.
        study: Name of the study; by default made of task, preset, algorithm and seed.
        max_time: Time for the whole study, in seconds or as a text such as "30m"; the number and
            length of runs follow from a measured step time.
        patience: End the search after this many accepted candidates without a better one.
        max_cost: End the search when it has taken so many training steps, in full runs. Without a
            budget, it has the number of candidates that this usually suffices for.
        finish: End the search of an existing study now, and compare what it has found. All other
            settings are those of the study.
        proxy: What the search trains instead of the task: `steps=0.1,data=0.2` for shares of the
            steps and of the training data, `file.py:name` or a task for a smaller model.
        start_from: Rules that are the first candidates: a rule, a name in the zoo, `zoo` for all of
            them, a study or its name, a file, or a list of these.
        warm_start: Whether the opponents and the rules of the zoo follow, those in the space, up to
            a quarter of the budget.
        baselines: Opponents: `classic`, `modern`, `all`, `none`, names separated by commas, or a
            list of names; by default those of the task.
        options: Options of the searcher, by name, such as `{"levels": 2}`.
        preset: Name of a preset of the task, which has the values of settings that are None here.
        protocol: How candidates are scored.
        proposals: Number of rules in the final comparison.
        descent: Whether to refuse rules that fail the paper's descent test.
        trajectory: Whether to refuse rules that fail the trajectory test.
        dedupe: Which rules count as duplicates: "equal", "scale" (up to a factor) or "none".
        max_state_bytes: Refuse rules with more bytes of state per parameter.
        max_step_cost: Refuse rules whose step costs more than this many times Adam's.
        refine: Whether to shorten the best rule after the search, as long as it is not worse.
        equally_tuned: Whether to compare the winner also with the best opponent after tuning all
            its constants, with as many training steps as the search took.
        time_limit: Seconds per evaluation; needs workers.
        device: Device to train on.
        stack: Copies of the model per stack; by default chosen by the model's size.
        data_dir: Directory that is searched first for the data of a named task.
        executor: Runs the evaluations instead of worker processes; started and closed here.
        progress: Whether to show progress: a panel in a terminal, a block that is updated in a
            notebook, and lines on stderr elsewhere.
        observer: Is notified of all events, in addition to the progress display.

    Raises:
        OptsmithError: A setting is invalid, or the study cannot be written or resumed.
    """
    from optsmith.display import watching  # late, because display depends on this package

    start = time.monotonic()
    watcher = watching(observer, progress)
    with choose_executor(executor, workers, time_limit) as running:
        asked = Asked(
            space=space, algorithm=algorithm, budget=budget, seed=seed, max_time=max_time,
            patience=patience, max_cost=max_cost, proxy=proxy, start_from=start_from,
            baselines=baselines, options=options or {}, preset=preset, protocol=protocol,
            proposals=proposals,
            descent=descent, trajectory=trajectory, dedupe=dedupe,
            max_state_bytes=max_state_bytes, max_step_cost=max_step_cost, warm_start=warm_start,
            refine=refine, equally_tuned=equally_tuned, time_limit=running.time_limit,
            device=device, stack=stack, data_dir=data_dir,
        )  # fmt: skip
        prepared = prepare_search(task, asked)
        name = study or prepared.name
        if finish:
            stored = Study.load(name, storage).stored_settings
            prepared = prepare_search(prepared.task, asked_again(asked, stored))
        is_planned = prepared.settings.max_time is not None and name not in list_studies(storage)
        if is_planned:
            running.warm_up(import_all, timeout=0.0)  # while the task is checked
        checked = check(prepared)
        prepared = without_roles(prepared)
        if not finish:
            prepared = with_starts(prepared, storage, name)
        planned = plan_settings(prepared, running, start) if is_planned else None  # writes nothing
        direction = prepared.task.objective.direction
        with Store.open(storage, name, direction=direction, create=not finish) as store:
            begun = begin(store, prepared, checked, running, finish, start, planned)
            try:
                run_phases(begun, running, watcher)
            except KeyboardInterrupt:
                if not store.records() and not ledger_evaluations(store.attrs, name):
                    raise
                watcher.interrupted()
            return Study(store)
