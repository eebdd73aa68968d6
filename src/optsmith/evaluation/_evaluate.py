"""The evaluation of one recipe: a learning rate from the grid, then a score from other seeds."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from optsmith.evaluation._cost import ms_per_step, peak_memory
from optsmith.evaluation._evaluation import Evaluation, GridPoint, Status
from optsmith.evaluation._lr_search import tune
from optsmith.evaluation._stopping import NOT_FINITE, Stopping
from optsmith.evaluation._train import Trace, train
from optsmith.optim import Recipe
from optsmith.task import Objective, Run, Stage, Task

CURVE_POINTS = 100
"""Points that a record keeps of a learning curve."""

TIMED_STEPS = 20
"""Steps of the short run that times a training step."""


def evaluate_recipe(
    task: Task, recipe: Recipe, stage: Stage, device: str | torch.device = "cpu"
) -> Evaluation:
    """Evaluate a recipe; whatever goes wrong in it becomes a status, never an exception."""
    start = time.perf_counter()
    evaluator = _Evaluator(task, recipe, stage, torch.device(device))
    try:
        record = evaluator.evaluate()
    except Exception as error:
        line = f"{type(error).__name__}: {error}".partition("\n")[0]
        record = Evaluation(str(recipe), Status.FAILED, steps=stage.steps, error=line)
    seconds = time.perf_counter() - start
    return replace(
        record,
        trained=evaluator.trained,
        seconds=seconds,
        peak_bytes=peak_memory(evaluator.device),
    )


@dataclass(slots=True)
class _Evaluator:
    task: Task
    recipe: Recipe
    stage: Stage
    device: torch.device
    trained: int = 0

    def evaluate(self) -> Evaluation:
        tuned = tune(self.task, self.recipe, self.stage, self.device, self._points)
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
        return self._score(record, best.lr)

    def _points(
        self, lrs: Sequence[float], seeds: Sequence[int], halving: bool = False
    ) -> list[list[GridPoint]]:
        stage, objective = self.stage, self.task.objective
        # Never `final`: a learning rate must not be chosen on what is held out for the end.
        runs = [
            Run(self.recipe, lr, seed, stage.tune_steps, final=False, device=self.device)
            for seed in seeds
            for lr in lrs
        ]
        stopping = Stopping(objective, stage.early_stop, stage.threshold, halving)
        traces = iter(self._train(runs, stopping))
        return [[_point(lr, next(traces), objective) for lr in lrs] for _ in seeds]

    def _score(self, record: Evaluation, lr: float) -> Evaluation:
        stage, objective = self.stage, self.task.objective
        runs = [self._run(lr, seed, stage.steps) for seed in stage.seeds]
        traces = self._train(runs, Stopping(objective))
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

    def _train(self, runs: Sequence[Run], stopping: Stopping) -> list[Trace]:
        traces = train(self.task, runs, stopping)
        self.trained += sum(trace.signal[-1][0] for trace in traces if trace.signal)
        return traces

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
