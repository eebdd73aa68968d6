"""Training runs of evaluations, and the jobs in which they are done."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

from optsmith.task import Stage

SIDE_BY_SIDE = 4
"""Evaluations per job if runs are stacked; larger jobs would leave fewer of them for workers."""

COARSE = 3.75 + 1
"""Runs of a halved grid of seven learning rates, and of its usual extensions."""

FINE = 6
"""Runs that try three learning rates with two seeds."""

AROUND = FINE + 1
"""Runs that tune around a known learning rate, with the usual extensions."""

HALVED = 0.5
"""Share of a grid's runs that is trained if the worse half is stopped twice."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Training runs of one evaluation.

    Attributes:
        count: Their number; a run that is stopped early is less than one.
        steps: Steps per run.
        sets: Sets of runs that are trained one after the other, each as part of one stack.
    """

    count: float
    steps: int
    sets: float = 1.0

    @property
    def trained(self) -> float:
        """Training steps of all runs."""
        return self.count * self.steps


@dataclass(frozen=True, slots=True)
class Work:
    """Evaluations that are started together.

    Attributes:
        evaluations: Their expected number.
        runs: The runs of each evaluation, one kind after the other.
        of_rules: Share that evaluates rules; the rest evaluates opponents.
        alike: How many of them may be trained together; None: all.
    """

    evaluations: float
    runs: tuple[Runs, ...]
    of_rules: float = 1.0
    alike: int | None = None

    @property
    def trained(self) -> float:
        """Training steps of all evaluations."""
        return self.evaluations * sum(runs.trained for runs in self.runs)

    def jobs(self, group: int) -> list[int]:
        """Return the number of evaluations of each job.

        Args:
            group: Maximum number of evaluations per job.
        """
        count, alike = math.ceil(self.evaluations), self.alike or math.ceil(self.evaluations)
        found = []
        for start in range(0, count, max(1, alike)):
            found += job_sizes(min(alike, count - start), group)
        return found


def job_sizes(count: int, group: int) -> list[int]:
    """Return the sizes of the jobs of evaluations that may be trained together.

    Jobs are smaller if there are few evaluations, so that several workers have something to do.
    """
    size = group
    while size > 1 and count <= size:
        size //= 2
    return [min(size, count - start) for start in range(0, count, size)]


def wall_time(jobs: Iterable[float], workers: int) -> float:
    """Return the time until jobs, which take so long each, are done in this order."""
    free = [0.0] * max(1, workers)
    for seconds in jobs:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


def runs_of(
    stage: Stage, fidelity: float = 1.0, *, lr: float | None = None, around: float | None = None
) -> tuple[Runs, ...]:
    """Return the runs of an evaluation: those that tune its learning rate, and those that score it.

    Args:
        stage: The stage of the evaluation.
        fidelity: Share of the length of its runs.
        lr: A fixed learning rate.
        around: A learning rate whose neighbourhood is tried.
    """
    tune, score = (max(1, round(n * fidelity)) for n in (stage.tune_steps, stage.steps))
    found = [] if lr is not None else [_tuning(stage, tune, is_around=around is not None)]
    if stage.seeds:
        found.append(Runs(len(stage.seeds), score))
    return tuple(found)


def _tuning(stage: Stage, steps: int, is_around: bool) -> Runs:
    if stage.lr_search == "auto" and is_around:
        return Runs(AROUND, steps, 1.5)
    if stage.lr_search == "auto" and not stage.refine:
        return Runs(COARSE, steps, 2)
    if stage.lr_search == "auto":
        return Runs(COARSE + FINE, steps, 3)
    return Runs(len(stage.lrs) * (HALVED if stage.lr_search == "halving" else 1.0), steps)
