"""The evaluation of recipes: tune the learning rate, then score it on other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch

from optsmith._failures import is_out_of_memory, one_line, traceback_text
from optsmith.evaluation._evaluation import Evaluation, Status
from optsmith.evaluation._lr_search import tune
from optsmith.evaluation._requests import Request, Requests, serve
from optsmith.optim import Recipe, has_lr
from optsmith.task import Run, Stage, Task
from optsmith.training import (
    NOT_FINITE,
    Stacking,
    Stopping,
    Trace,
    choose_stacking,
    ms_per_step,
    peak_memory,
    train,
)

CURVE_POINTS = 100
"""Points of a learning curve that are stored."""

TIMED_STEPS = 20
"""Steps of the short run that times a training step."""


def evaluate_recipe(
    task: Task,
    recipe: Recipe,
    stage: Stage,
    device: str | torch.device = "cpu",
    stacking: Stacking | None = None,
) -> Evaluation:
    """Evaluate one recipe; see `evaluate_recipes`."""
    (evaluation,) = evaluate_recipes(task, [recipe], stage, device, stacking)
    return evaluation


def evaluate_recipes(
    task: Task,
    recipes: Sequence[Recipe],
    stage: Stage | Sequence[Stage],
    device: str | torch.device = "cpu",
    stacking: Stacking | None = None,
) -> list[Evaluation]:
    """Evaluate recipes side by side; an error in one becomes its status and is never raised.

    Args:
        task: The task.
        recipes: The recipes.
        stage: How to evaluate all of them, or each of them.
        device: Where to train.
        stacking: Which runs are trained together; chosen here by default.
    """
    where = torch.device(device)
    chosen = stacking or choose_stacking(task, where)
    stages = [stage] * len(recipes) if isinstance(stage, Stage) else stage
    pairs = list(zip(recipes, stages, strict=True))
    evaluations = [_evaluation(task, recipe, its_stage, where) for recipe, its_stage in pairs]
    every = serve(evaluations, lambda runs, stopping: train(task, runs, stopping, chosen))
    return [
        replace(
            _record(recipe, served.result, its_stage),
            trained=served.trained,
            seconds=served.seconds,
            peak_bytes=peak_memory(where),
        )
        for (recipe, its_stage), served in zip(pairs, every, strict=True)
    ]


def _record(recipe: Recipe, result: Evaluation | Exception | None, stage: Stage) -> Evaluation:
    if isinstance(result, Evaluation):
        return result
    if result is None:
        raise AssertionError("every computation returns an evaluation or raises an error")
    record = Evaluation(str(recipe), Status.FAILED, steps=stage.steps)
    if is_out_of_memory(result):
        return replace(record, status=Status.LOST, error=one_line(result))
    return replace(record, error=one_line(result), traceback=traceback_text(result))


def _evaluation(
    task: Task, recipe: Recipe, stage: Stage, device: torch.device
) -> Requests[Evaluation]:
    """Evaluate one recipe."""
    tuned = yield from tune(task, recipe, stage, device)
    grid, best = tuned.points, tuned.best
    record = Evaluation(str(recipe), Status.EARLY_STOPPED, grid=grid, steps=stage.steps)
    if best is None:
        # No learning rate gave finite numbers: that is divergence, not a slow start.
        if all(point.stopped == NOT_FINITE for point in grid):
            return replace(record, status=Status.DIVERGED)
        return record
    lrs = [point.lr for point in grid]
    at_edge = len(lrs) > 1 and best.lr in (min(lrs), max(lrs))
    if not stage.seeds and best.score is not None:
        return replace(record, status=Status.OK, score=best.score, lr=best.lr, at_edge=at_edge)
    # A recipe without a learning rate has no tuning runs that could score it.
    seeds = stage.seeds or (stage.lr_seed,)
    runs = tuple(Run(recipe, best.lr, seed, stage.steps, stage.final, device) for seed in seeds)
    traces = yield Request(runs, Stopping(task.objective))
    record = replace(
        record,
        lr=best.lr if has_lr(recipe) else None,
        at_edge=at_edge,
        ms_per_step=_step_time(task, runs, stage),
    )
    return _scored(replace(record, seeds=seeds), task, stage, traces)


def _step_time(task: Task, runs: Sequence[Run], stage: Stage) -> float:
    """Return the milliseconds of a plain training step, which only final evaluations show."""
    if not (stage.final and stage.timed):
        return math.nan
    short = replace(runs[0], seed=stage.lr_seed, steps=min(TIMED_STEPS, stage.steps), built=[])
    return ms_per_step(task, short)


def _scored(record: Evaluation, task: Task, stage: Stage, traces: Sequence[Trace]) -> Evaluation:
    """Return the record with the score of the traces, one per seed."""
    objective = task.objective
    scores = tuple(math.nan if t.stopped else objective.score(t.signal) for t in traces)
    names = {name: None for t in traces for name in t.metrics}
    record = replace(
        record,
        scores=scores,
        metrics={n: tuple(t.metrics.get(n, math.nan) for t in traces) for n in names},
        curve=_curve(traces),
        state_bytes=traces[-1].state_bytes,
    )
    score = sum(scores) / len(scores)
    if not math.isfinite(score):
        return replace(record, status=Status.DIVERGED)
    passes = stage.threshold is None or objective.better(score, stage.threshold)
    return replace(record, score=score, status=Status.OK if passes else Status.REJECTED)


def _curve(traces: Sequence[Trace]) -> tuple[tuple[int, float], ...]:
    """Return the mean signal over runs, thinned evenly; the last point is the last step."""
    through = [t.signal for t in traces if not t.stopped]
    if not through:
        return ()
    count = min(len(signal) for signal in through)
    points = min(count, CURVE_POINTS)
    kept = sorted(count - 1 - i * count // points for i in range(points))
    return tuple(
        (through[0][i][0], sum(signal[i][1] for signal in through) / len(through)) for i in kept
    )
