"""`optsmith.search`: runs a search and returns its study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from optsmith._errors import StudyError
from optsmith.execution import Executor
from optsmith.optim import Baseline
from optsmith.rules import definitions
from optsmith.screening import Screen
from optsmith.searchers import Searcher, find_searcher, option_fields, read_options, searchers
from optsmith.space import Space, spaces
from optsmith.storage import SCHEMA_KEY, Store
from optsmith.study._attributes import ABOUT, SETTINGS, About
from optsmith.study._context import FINAL, SEARCH, Context, evaluate_all, prepare, run_job
from optsmith.study._executor import choose_executor
from optsmith.study._identity import check_signal, first_signal, stacking_of
from optsmith.study._observer import Observer
from optsmith.study._recorder import Recorder
from optsmith.study._runner import Runner
from optsmith.study._settings import Settings, space_hash
from optsmith.study._study import Study
from optsmith.study._tally import Tally
from optsmith.task import Preset, Protocol, Task, check_device, find_task
from optsmith.training import Stacking

SIDE_BY_SIDE = 4
"""Candidates per group if runs are stacked; larger groups would leave fewer jobs for workers."""


def search(
    task: Task | str,
    space: Space | str | None = None,
    algorithm: str | type[Searcher] = "mct",
    budget: int | None = None,
    seed: int = 0,
    workers: int | None = None,
    storage: str | Path | None = None,
    study: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    preset: str = "quick",
    protocol: Protocol | None = None,
    proposals: int | None = None,
    descent: bool | None = None,
    trajectory: bool | None = None,
    dedupe: str | None = None,
    time_limit: float | None = None,
    device: str = "cpu",
    stack: int | None = None,
    compare: Iterable[Baseline] | None = None,
    data_dir: Path | None = None,
    executor: Executor | None = None,
    observer: Observer | None = None,
) -> Study:
    """Search for the rule that trains a task best, and compare the best rules with baselines.

    Calling it again with the same settings resumes an interrupted search, and returns the study of
    a finished one. The same settings give the same study with any number of workers.

    Args:
        task: The task, or the name of one.
        space: The space, or the name of one; by default that of the preset.
        algorithm: Name of a searcher, `file.py:Class`, or a class.
        budget: Number of candidates to accept; by default that of the preset.
        seed: Seed of the search.
        workers: Number of worker processes; 0: evaluate in this process. By default, one per core.
        storage: Directory or file of the journal, or the URL of an Optuna storage.
        study: Name of the study; by default made of task, preset, algorithm and seed.
        options: Options of the searcher, by name, such as `{"levels": 2}`.
        preset: Name of a preset of the task, which has the values of settings that are None here.
        protocol: How candidates are scored.
        proposals: Number of rules in the final evaluation.
        descent: Whether to refuse rules that fail the paper's descent test.
        trajectory: Whether to refuse rules that fail the trajectory test.
        dedupe: Which rules count as duplicates: "equal", "scale" (up to a factor) or "none".
        time_limit: Seconds per evaluation; needs workers.
        device: Device to train on.
        stack: Copies of the model per stack; by default chosen by the model's size.
        compare: Baselines of the final evaluation; by default those of the task.
        data_dir: Directory that is searched first for the data of a named task.
        executor: Runs the evaluations instead of worker processes; started and closed here.
        observer: Is notified of progress.

    Raises:
        OptsmithError: A setting is invalid, or the study cannot be written or resumed.
    """
    with choose_executor(executor, workers, time_limit) as running:
        if isinstance(task, str):
            task = find_task(task, data_dir)
        base = task.preset(preset)
        chosen = _space(base.space if space is None else space)
        kind = find_searcher(algorithm) if isinstance(algorithm, str) else algorithm
        label = _label(kind)
        check_device(device)
        changes: dict[str, Any] = {
            "protocol": protocol, "budget": budget, "proposals": proposals, "descent": descent,
            "trajectory": trajectory, "dedupe": dedupe,
        }  # fmt: skip
        settings = Settings(
            task=task.name,
            preset=preset,
            search=replace(
                base,
                space=chosen.name,
                options=_options(kind, label, base, options or {}),
                **{name: value for name, value in changes.items() if value is not None},
            ),
            algorithm=algorithm if isinstance(algorithm, str) else label,
            seed=seed,
            time_limit=running.time_limit,
            device=device,
            stack=stack,
            space_hash=space_hash(chosen),
            definitions=definitions(chosen),
        )
        searcher = kind(
            chosen,
            settings.search.budget,
            seed,
            task.objective.direction,
            read_options(label, kind.Options, settings.search.options),
        )
        signal = first_signal(task, settings.search.protocol, device)
        if stack is not None:
            stacking_of(task, device, stack)  # raises before anything is written
        name = study or f"{task.name}-{preset}-{label}-{seed}"
        recipes = list(map(str, task.baselines.values() if compare is None else compare))
        with Store.open(storage, name, direction=task.objective.direction) as store:
            stacking = _begin(store, settings, task, signal)
            protocol = settings.search.protocol
            stages = {SEARCH: protocol.search_stage, FINAL: protocol.final_stage}
            running.start(run_job, Context(task, stages, stacking, device), prepare)
            recorder = Recorder(store, searcher, Tally(task.objective), observer or Observer())
            _run(settings, searcher, running, stacking, recorder, recipes)
            return Study(store)


def _space(space: Space | str) -> Space:
    if isinstance(space, Space):
        return space
    if space not in spaces:
        raise spaces.unknown(space)
    return spaces[space]


def _label(kind: type[Searcher]) -> str:
    """Return the registered name of a searcher, or the name of its class."""
    return next((name for name, known in searchers.items() if known is kind), kind.__name__)


def _options(
    kind: type[Searcher], label: str, preset: Preset, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return all options of a searcher: given, from the preset, or by default."""
    declared = {field.name for field in option_fields(kind.Options)}
    usual = {name: value for name, value in preset.options.items() if name in declared}
    return asdict(read_options(label, kind.Options, {**usual, **given}))


def _begin(store: Store, settings: Settings, task: Task, signal: float) -> Stacking:
    """Store settings and facts about the task, or check that they are those of the study.

    Returns which runs are trained together, which is the same in all sessions of a study.
    """
    if SETTINGS in store.attrs:
        before = Study(store)  # checks all data of the study before anything is written
        settings.check_continues(before.settings, store.name)
        check_signal(signal, before.about["first_signal"], store.name)
        stacking = stacking_of(task, settings.device, settings.stack, before.about["stacking"])
    else:
        # A search that was killed between two writes has left the first of two attributes.
        others = [key for key in store.attrs if key not in (SCHEMA_KEY, ABOUT)]
        if others or store.records():
            raise StudyError(
                f"the study {store.name} in {store.location} has data, but not the settings of a"
                " search: give another --study"
            )
        stacking = stacking_of(task, settings.device, settings.stack)
        store.set_attr(ABOUT, About.of(task, signal, stacking).to_json())
    if settings.to_json() != store.attrs.get(SETTINGS):  # new, or with a larger budget
        store.set_attr(SETTINGS, settings.to_json())
    return stacking


def _run(
    settings: Settings,
    searcher: Searcher,
    executor: Executor,
    stacking: Stacking,
    recorder: Recorder,
    compare: list[str],
) -> None:
    """Run the search, then the final evaluation."""
    observer, tally, terms = recorder.observer, recorder.tally, settings.search
    observer.started(settings, searcher, tally, executor.workers, recorder.store.location)
    observer.stacked(stacking)
    if recorder.count:
        observer.resumed(recorder.count)
    screen = Screen(
        descent=Screen().descent if terms.descent else None,
        trajectory=Screen().trajectory if terms.trajectory else None,
        seed=settings.seed,
    )
    # A time limit applies to a single candidate.
    is_stacked = stacking.copies > 1 and settings.time_limit is None
    group = SIDE_BY_SIDE if is_stacked else 1
    try:
        Runner(searcher, screen, _KEYS[terms.dedupe], executor, group, recorder).run()
        recipes = [*(e.recipe for e in tally.best(terms.proposals)), *compare]
        missing = recorder.without_final(recipes)
        observer.comparing(len(missing))
        for evaluation in evaluate_all(executor, FINAL, missing):
            recorder.record_final(evaluation)
        recorder.finish(recipes)
    finally:
        recorder.save()
        observer.finished()


_KEYS: dict[str, Any] = {
    "none": lambda screening: "",
    "equal": lambda screening: screening.fingerprint,
    "scale": lambda screening: screening.scale_fingerprint,
}
