"""`optsmith.search`: settings in, a study out."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from optsmith._version import __version__
from optsmith.execution import Executor, default_workers, make_executor
from optsmith.optim import Baseline, Recipe
from optsmith.screening import Screen
from optsmith.searchers import Searcher, searchers
from optsmith.space import Space, spaces
from optsmith.storage._store import Store
from optsmith.study._bench import Bench, evaluate_all, evaluate_job
from optsmith.study._identity import check_signal, first_signal, stacking_of
from optsmith.study._observer import Observer
from optsmith.study._recorder import Recorder
from optsmith.study._runner import Runner
from optsmith.study._settings import Settings, space_hash
from optsmith.study._study import Study
from optsmith.study._tally import Tally
from optsmith.task import Protocol, Task, check_device, find_task
from optsmith.training import Stacking

SIDE_BY_SIDE = 4
"""Candidates that are evaluated together where runs are stacked; more would leave workers fewer
jobs to share."""


def search(
    task: Task | str,
    space: Space | str | None = None,
    algorithm: str = "mct",
    budget: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    *,
    preset: str = "quick",
    protocol: Protocol | None = None,
    levels: int | None = None,
    proposals: int = 5,
    descent: bool = True,
    trajectory: bool | None = None,
    dedupe: str | None = None,
    count_all: bool | None = None,
    time_limit: float | None = None,
    device: str = "cpu",
    compare: Iterable[Baseline] | None = None,
    data_dir: Path | None = None,
    observer: Observer | None = None,
) -> Study:
    """Search for the rule that trains a task best, and compare the best with tuned baselines.

    Calling it again with the same settings continues a search that was interrupted, and returns
    one that is finished. The same settings give the same study, whatever the number of workers.

    Args:
        task: The task, or the name of one.
        space: The space, or the name of one; the preset's by default.
        algorithm: Name of the searcher.
        budget: Rules to accept; the preset's by default.
        seed: Seed of the search.
        workers: Processes that evaluate; 0 evaluates in this one. By default, one for each core.
        storage: Directory or file of the journal, or the URL of an Optuna storage.
        study: Name of the study; by default made of task, preset, algorithm and seed.
        preset: Name of the task's settings to start from.
        protocol: How candidates are scored, instead of the preset's.
        levels: Levels of the tree search.
        proposals: How many of the best are compared with the baselines in the end.
        descent: Whether to refuse rules that fail the paper's descent test.
        trajectory: Whether to refuse rules that fail the trajectory test.
        dedupe: Which rules count as known: "equal", "scale" (up to a factor) or "none".
        count_all: Whether every evaluation counts in the budget, not only those accepted.
        time_limit: Seconds that one evaluation may take; needs workers.
        device: Where to train.
        compare: The baselines of the end; the task's by default, none when empty.
        data_dir: Where to look for a named task's data first.
        observer: Is told of progress.

    Raises:
        OptsmithError: A setting makes no sense, or the study cannot be written or continued.
    """
    if isinstance(task, str):
        task = find_task(task, data_dir)
    chosen = task.preset(preset)
    space = _space(chosen.space if space is None else space)
    if algorithm not in searchers:
        raise searchers.unknown(algorithm)
    check_device(device)
    settings = Settings(
        task=task.name,
        preset=preset,
        protocol=protocol or chosen.protocol,
        algorithm=algorithm,
        space=space.name,
        space_hash=space_hash(space),
        budget=chosen.budget if budget is None else budget,
        levels=chosen.levels if levels is None else levels,
        proposals=proposals,
        seed=seed,
        descent=descent,
        trajectory=chosen.trajectory if trajectory is None else trajectory,
        dedupe=dedupe or chosen.dedupe,  # type: ignore[arg-type]
        count_all=chosen.count_all if count_all is None else count_all,
        time_limit=time_limit,
        device=device,
    )
    workers = default_workers() if workers is None else workers
    signal = first_signal(task, settings.protocol, device)
    name = study or f"{task.name}-{preset}-{algorithm}-{seed}"
    recipes = list(task.baselines.values() if compare is None else compare)
    stages = {"search": settings.protocol.search_stage, "final": settings.protocol.final_stage}
    bench = Bench(task, stages, device)
    with (
        make_executor(evaluate_job, bench, workers, time_limit) as executor,
        Store.open(storage, name, direction=task.objective.direction) as store,
    ):
        bench.stacking = _begin(store, settings, task, signal)
        _run(settings, space, bench, store, executor, recipes, observer or Observer())
        return Study(store)


def _space(space: Space | str) -> Space:
    if isinstance(space, Space):
        return space
    if space not in spaces:
        raise spaces.unknown(space)
    return spaces[space]


def _begin(store: Store, settings: Settings, task: Task, signal: float) -> Stacking:
    """Write down what the study is about, or check that it is about the same.

    Returns how runs are trained, which must not change on the way.
    """
    stored = store.attrs
    if "settings" in stored:
        settings.check_continues(stored["settings"], store.name)
        check_signal(signal, stored["about"]["first_signal"], store.name)
        stacking = stacking_of(task, settings.device, stored["about"])
    else:
        stacking = stacking_of(task, settings.device)
        about = {
            "description": task.description,
            "applied": task.applied,
            "usage": task.usage,
            "objective": asdict(task.objective),
            "first_signal": signal,
            "stacking": asdict(stacking),
            "versions": _versions(),
            "created": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        }
        store.set_attr("about", about)
    store.set_attr("settings", settings.to_json())
    return stacking


def _versions() -> dict[str, str]:
    return {
        "optsmith": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {platform.system()}",
    }


def _run(
    settings: Settings,
    space: Space,
    bench: Bench,
    store: Store,
    executor: Executor,
    compare: list[Baseline],
    observer: Observer,
) -> None:
    objective, stacking = bench.task.objective, bench.stacking or Stacking()
    searcher: Searcher = searchers[settings.algorithm](
        space,
        settings.budget,
        settings.seed,
        objective.direction,
        levels=settings.levels,
        count_all=settings.count_all,
    )
    tally = Tally(objective)
    recorder = Recorder(store, searcher, tally, observer)
    observer.started(settings, searcher, tally, executor.workers, store.location)
    observer.stacked(stacking)
    if recorder.count:
        observer.resumed(recorder.count)
    screen = Screen(
        descent=Screen().descent if settings.descent else None,
        trajectory=Screen().trajectory if settings.trajectory else None,
        seed=settings.seed,
    )
    # A time limit is that of one candidate.
    is_stacked = stacking.copies > 1 and settings.time_limit is None
    try:
        Runner(
            searcher, screen, _KEYS[settings.dedupe], executor, SIDE_BY_SIDE if is_stacked else 1,
            recorder.known, recorder.record, tally, recorder,
        ).run()  # fmt: skip
        best: list[Recipe] = [c.rule for c, _ in tally.best(settings.proposals)]
        recipes = [*best, *compare]
        missing = recorder.without_final(recipes)
        observer.comparing(len(missing))
        for evaluation in evaluate_all(executor, "final", missing):
            recorder.record_final(evaluation)
        recorder.finish([str(r) for r in recipes])
    finally:
        recorder.save()
        observer.finished()


_KEYS: dict[str, Any] = {
    "none": lambda screening: "",
    "equal": lambda screening: screening.fingerprint,
    "scale": lambda screening: screening.scale_fingerprint,
}
