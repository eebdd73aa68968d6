"""The evaluation of recipes: a learning rate from the grid, then a score from other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from optsmith.evaluation._evaluation import Evaluation, GridPoint, Status
from optsmith.evaluation._lr_search import tune
from optsmith.evaluation._plan import Plan, Wanted, side_by_side
from optsmith.optim import Recipe
from optsmith.task import Objective, Run, Stage, Task
from optsmith.training._cost import ms_per_step, peak_memory
from optsmith.training._stopping import NOT_FINITE, Stopping
from optsmith.training._train import Trace, train
from optsmith.training.stacked._choose import choose_stacking
from optsmith.training.stacked._stacking import Stacking

CURVE_POINTS = 100
"""Points that a record keeps of a learning curve."""

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
    stage: Stage,
    device: str | torch.device = "cpu",
    stacking: Stacking | None = None,
) -> list[Evaluation]:
    """Evaluate recipes side by side; whatever goes wrong in one becomes its status, never raised.

    Args:
        task: The task.
        recipes: What trains.
        stage: How to evaluate.
        device: Where to train.
        stacking: Which runs are trained together; chosen here by default.
    """
    where = torch.device(device)
    chosen = stacking or choose_stacking(task, where)
    plans = [_Evaluator(task, recipe, stage, where).plan() for recipe in recipes]
    every = side_by_side(plans, lambda runs, stopping: train(task, runs, stopping, chosen))
    return [
        replace(
            _record(recipe, progress.result, stage),
            trained=progress.trained,
            seconds=progress.seconds,
            peak_bytes=peak_memory(where),
        )
        for recipe, progress in zip(recipes, every, strict=True)
    ]


def _record(recipe: Recipe, result: Evaluation | Exception | None, stage: Stage) -> Evaluation:
    if isinstance(result, Evaluation):
        return result
    line = f"{type(result).__name__}: {result}".partition("\n")[0]
    return Evaluation(str(recipe), Status.FAILED, steps=stage.steps, error=line)


@dataclass(frozen=True, slots=True)
class _Evaluator:
    task: Task
    recipe: Recipe
    stage: Stage
    device: torch.device

    def plan(self) -> Plan[Evaluation]:
        tuned = yield from tune(self.task, self.recipe, self.stage, self.device, self._points)
        grid, best = tuned.points, tuned.best
        record = Evaluation(
            str(self.recipe), Status.EARLY_STOPPED, grid=grid, steps=self.stage.steps
        )
        if best is None:
            # Not one learning rate gave finite numbers: that is divergence, not a slow start.
            if all(point.stopped == NOT_FINITE for point in grid):
                return replace(record, status=Status.DIVERGED)
            return record
        lrs = [point.lr for point in grid]
        at_edge = len(lrs) > 1 and best.lr in (min(lrs), max(lrs))
        record = replace(record, lr=best.lr, at_edge=at_edge)
        return (yield from self._score(record, best.lr))

    def _points(
        self, lrs: Sequence[float], seeds: Sequence[int], halving: bool = False
    ) -> Plan[list[list[GridPoint]]]:
        stage, objective = self.stage, self.task.objective
        # Never `final`: a learning rate must not be chosen on what is held out for the end.
        runs = tuple(
            Run(self.recipe, lr, seed, stage.tune_steps, final=False, device=self.device)
            for seed in seeds
            for lr in lrs
        )
        stopping = Stopping(objective, stage.early_stop, stage.threshold, halving)
        traces = iter((yield Wanted(runs, stopping)))
        return [[_point(lr, next(traces), objective) for lr in lrs] for _ in seeds]

    def _score(self, record: Evaluation, lr: float) -> Plan[Evaluation]:
        stage, objective = self.stage, self.task.objective
        runs = tuple(self._run(lr, seed, stage.steps) for seed in stage.seeds)
        traces = yield Wanted(runs, Stopping(objective))
        scores = tuple(math.nan if t.stopped else objective.score(t.signal) for t in traces)
        names = {name: None for t in traces for name in t.metrics}
        record = replace(
            record,
            seeds=stage.seeds,
            scores=scores,
            metrics={n: tuple(t.metrics.get(n, math.nan) for t in traces) for n in names},
            curve=_curve(traces),
            ms_per_step=ms_per_step(
                self.task, self._run(lr, stage.lr_seed, min(TIMED_STEPS, stage.steps))
            )
            if stage.final
            else math.nan,
            state_bytes=traces[-1].state_bytes,
        )
        score = sum(scores) / len(scores)
        if not math.isfinite(score):
            return replace(record, status=Status.DIVERGED)
        passes = stage.threshold is None or objective.better(score, stage.threshold)
        return replace(record, score=score, status=Status.OK if passes else Status.REJECTED)

    def _run(self, lr: float, seed: int, steps: int) -> Run:
        return Run(self.recipe, lr, seed, steps, self.stage.final, self.device)


def _point(lr: float, trace: Trace, objective: Objective) -> GridPoint:
    return GridPoint(lr, None if trace.stopped else objective.score(trace.signal), trace.stopped)


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
