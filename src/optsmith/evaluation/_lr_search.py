"""Learning-rate search: on a fixed grid, or around the rate at which updates match the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from optsmith.evaluation._evaluation import GridPoint
from optsmith.evaluation._requests import Request, Requests
from optsmith.evaluation._size import unit_lr
from optsmith.optim import Recipe, has_lr
from optsmith.task import Objective, Run, Stage, Task
from optsmith.training import Stopping

MOST_EXTENSIONS = 8
"""Learning rates tried beyond an edge of the grid."""

COARSE = tuple(10 ** (exponent / 2) for exponent in range(-5, 2))
"""First grid of `auto`, in units of the rate at which updates are as large as the weights."""

UNUSED = 0.0
"""Learning rate of runs whose recipe has none."""

FINE = 10**0.25
"""Factor between the best rate of that grid and its neighbours in the second one."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a learning-rate search.

    Attributes:
        points: Every learning rate tried, in increasing order.
        best: The one chosen; None when all were stopped or stayed below the threshold.
    """

    points: tuple[GridPoint, ...]
    best: GridPoint | None


def tune(task: Task, recipe: Recipe, stage: Stage, device: torch.device) -> Requests[Tuned]:
    """Tune the learning rate of a recipe for a stage."""
    search = _Search(task, recipe, stage, device)
    if stage.lr is not None:
        return Tuned((), GridPoint(stage.lr, None))
    if not has_lr(recipe):
        return Tuned((), GridPoint(UNUSED, None))
    if stage.around is not None:
        return (yield from _tune_around(search, stage.around))
    unit = unit_lr(task, recipe, stage, device) if stage.lr_search == "auto" else None
    lrs = stage.lrs if unit is None else [unit * factor for factor in COARSE]
    (points,) = yield from search.points(lrs, [stage.lr_seed], halving=stage.lr_search != "grid")
    if stage.extend_grid or unit is not None:
        points = yield from search.extended(points)
    best = search.best(points)
    if unit is None or best is None or not stage.refine:
        return Tuned(tuple(points), best)
    # The best of one seed is partly luck, most of all just below the rate where training becomes
    # unstable: its neighbourhood is tried with a second seed.
    around = [best.lr / FINE, best.lr, best.lr * FINE]
    close = list(map(_mean, *(yield from search.points(around, stage.lr_seeds))))
    others = [point for point in points if point.lr != best.lr]
    ordered = tuple(sorted([*others, *close], key=lambda point: point.lr))
    return Tuned(ordered, search.best(close))


def _tune_around(search: _Search, lr: float) -> Requests[Tuned]:
    """Try a learning rate and its neighbours, with both seeds."""
    seeds = search.stage.lr_seeds
    lrs = [lr / FINE, lr, lr * FINE]
    points = list(map(_mean, *(yield from search.points(lrs, seeds))))
    points = yield from search.extended(points, seeds)
    return Tuned(tuple(points), search.best(points))


@dataclass(frozen=True, slots=True)
class _Search:
    task: Task
    recipe: Recipe
    stage: Stage
    device: torch.device

    def points(
        self, lrs: Sequence[float], seeds: Sequence[int], halving: bool = False
    ) -> Requests[list[list[GridPoint]]]:
        """Train at learning rates; return the points of each seed."""
        stage, objective = self.stage, self.task.objective
        # Never `final`: a learning rate must not be chosen on data held out for the report.
        runs = tuple(
            Run(self.recipe, lr, seed, stage.tune_steps, final=False, device=self.device)
            for seed in seeds
            for lr in lrs
        )
        stopping = Stopping(objective, stage.early_stop, stage.threshold, halving)
        points = [
            GridPoint(
                run.lr, None if trace.stopped else objective.score(trace.signal), trace.stopped
            )
            for run, trace in zip(runs, (yield Request(runs, stopping)), strict=True)
        ]
        return [points[i : i + len(lrs)] for i in range(0, len(points), len(lrs))]

    def extended(
        self, points: list[GridPoint], seeds: Sequence[int] = ()
    ) -> Requests[list[GridPoint]]:
        """Continue outwards while the best rate is at an edge; by default with the grid's seed."""
        seeds = seeds or [self.stage.lr_seed]
        for _ in range(MOST_EXTENSIONS):
            best = best_point(points, self.task.objective)
            beyond = None if best is None else _beyond([p.lr for p in points], best.lr)
            if beyond is None:
                break
            every = yield from self.points([beyond], seeds)
            found = every[0] if len(every) == 1 else list(map(_mean, *every))
            points = sorted([*points, *found], key=lambda point: point.lr)
        return points

    def best(self, points: Sequence[GridPoint]) -> GridPoint | None:
        return best_point(points, self.task.objective, self.stage.threshold)


def _mean(one: GridPoint, other: GridPoint) -> GridPoint:
    """Return a point from two seeds; stopped when either was."""
    if one.score is None or other.score is None:
        return GridPoint(one.lr, None, one.stopped or other.stopped)
    return GridPoint(one.lr, (one.score + other.score) / 2)


def best_point(
    points: Sequence[GridPoint], objective: Objective, threshold: float | None = None
) -> GridPoint | None:
    """Return the best learning rate that was not stopped and beats the threshold."""
    through = [
        (objective.key(p.score), p)
        for p in points
        if p.score is not None and (threshold is None or objective.better(p.score, threshold))
    ]
    return min(through, key=lambda pair: pair[0])[1] if through else None


def _beyond(lrs: Sequence[float], best: float) -> float | None:
    """Return the next learning rate outwards when the best is at an edge."""
    if len(lrs) > 1 and best == lrs[-1]:
        beyond = best * max(lrs[-1] / lrs[-2], 2.0)
    elif len(lrs) > 1 and best == lrs[0]:
        beyond = best / max(lrs[1] / lrs[0], 2.0)
    else:
        return None
    return beyond if 0 < beyond < math.inf else None
