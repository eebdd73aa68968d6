"""How a learning rate is found: on a fixed grid, or where the rule's own size says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from optsmith.evaluation._evaluation import GridPoint
from optsmith.evaluation._plan import Plan
from optsmith.evaluation._size import unit_lr
from optsmith.optim import Recipe
from optsmith.task import Objective, Stage, Task


class Try(Protocol):
    """Plans to train at learning rates, for what comes of each."""

    def __call__(
        self, lrs: Sequence[float], seeds: Sequence[int], halving: bool = False
    ) -> Plan[list[list[GridPoint]]]:
        """Plan for the points of each seed; with `halving`, those behind are given up halfway."""


MOST_EXTENSIONS = 8
"""Learning rates tried beyond an edge of the grid."""

COARSE = tuple(10 ** (exponent / 2) for exponent in range(-5, 2))
"""Steps of `auto`'s first grid, in units of the weights' size."""

FINE = 10**0.25
"""How far from the best of them it looks next."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What a search for a learning rate found.

    Attributes:
        points: Every learning rate tried, in order of size.
        best: The one chosen; None when none got through.
    """

    points: tuple[GridPoint, ...]
    best: GridPoint | None


def tune(
    task: Task, recipe: Recipe, stage: Stage, device: torch.device, attempt: Try
) -> Plan[Tuned]:
    """Plan to search for a learning rate as the stage says.

    Args:
        task: The task.
        recipe: What trains.
        stage: Says how to search.
        device: Where to train.
        attempt: Plans to train at given learning rates, with given seeds.
    """
    objective = task.objective
    unit = unit_lr(task, recipe, stage, device) if stage.lr_search == "auto" else None
    lrs = stage.lrs if unit is None else [unit * step for step in COARSE]
    (points,) = yield from attempt(lrs, [stage.lr_seed], halving=stage.lr_search != "grid")
    if stage.extend_grid or unit is not None:
        points = yield from _extend(points, objective, stage.lr_seed, attempt)
    best = best_point(points, objective, stage.threshold)
    if unit is None or best is None:
        return Tuned(tuple(points), best)
    # One seed has its luck, most of all where training is just about to become unstable.
    around = [best.lr / FINE, best.lr, best.lr * FINE]
    close = list(map(_mean, *(yield from attempt(around, stage.lr_seeds))))
    others = [point for point in points if point.lr != best.lr]
    ordered = tuple(sorted([*others, *close], key=lambda point: point.lr))
    return Tuned(ordered, best_point(close, objective, stage.threshold))


def _mean(one: GridPoint, other: GridPoint) -> GridPoint:
    """Return a point from two seeds; stopped when either was."""
    if one.score is None or other.score is None:
        return GridPoint(one.lr, None, one.stopped or other.stopped)
    return GridPoint(one.lr, (one.score + other.score) / 2)


def best_point(
    points: Sequence[GridPoint], objective: Objective, threshold: float | None = None
) -> GridPoint | None:
    """Return the best learning rate that got through and beats the threshold."""
    through = [
        (objective.key(p.score), p)
        for p in points
        if p.score is not None and (threshold is None or objective.better(p.score, threshold))
    ]
    return min(through, key=lambda pair: pair[0])[1] if through else None


def _extend(
    points: list[GridPoint], objective: Objective, seed: int, attempt: Try
) -> Plan[list[GridPoint]]:
    """Plan to go on outwards while the best is at an edge."""
    for _ in range(MOST_EXTENSIONS):
        best = best_point(points, objective)
        beyond = None if best is None else _beyond([p.lr for p in points], best.lr)
        if beyond is None:
            break
        (found,) = yield from attempt([beyond], [seed])
        points = sorted([*points, *found], key=lambda point: point.lr)
    return points


def _beyond(lrs: Sequence[float], best: float) -> float | None:
    """Return the next learning rate outwards when the best is at an edge."""
    if len(lrs) > 1 and best == lrs[-1]:
        beyond = best * max(lrs[-1] / lrs[-2], 2.0)
    elif len(lrs) > 1 and best == lrs[0]:
        beyond = best / max(lrs[1] / lrs[0], 2.0)
    else:
        return None
    return beyond if 0 < beyond < math.inf else None
