"""Jobs that were started together, and when they are expected to be done."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.study._rates import Kind, Rates
from optsmith.study._work import Runs, wall_time

LEAST = 0.1
"""Share of a job's expected time that is left at least while it runs."""


class PendingJob:
    """A job that is not done.

    Args:
        recipes: What it evaluates.
        runs: The runs of each evaluation.

    Attributes:
        kinds: Kind of each recipe.
        start: Time at which it was started; None: it waits for a worker.
        left: Number of evaluations that have not arrived.
    """

    def __init__(self, recipes: Sequence[str], runs: Sequence[tuple[Runs, ...]]) -> None:
        self.recipes, self.runs = recipes, runs
        self.kinds = [Kind.of(recipe) for recipe in recipes]
        self.start: float | None = None
        self.left = len(recipes)


class UnderWay:
    """Follows jobs on workers, which start them in order.

    Args:
        phase: Phase of the study.
        jobs: The jobs.
        workers: Number of workers.
        now: Time at which they are started.
    """

    def __init__(self, phase: str, jobs: Sequence[PendingJob], workers: int, now: float) -> None:
        self.phase = phase
        self._jobs, self._workers = list(jobs), workers
        self._loops_per_step: dict[Kind, float] = {}
        self._all = tuple(jobs)
        self._start(now)

    def add(self, recipe: str, now: float) -> None:
        """Count an evaluation; when a job is done, the next one starts."""
        running = [job for job in self._jobs if job.start is not None]
        job = next((job for job in running if recipe in job.recipes), None)
        if job is None:
            return
        job.left -= 1
        if not job.left:
            self._jobs.remove(job)
            self._start(now)

    def _start(self, now: float) -> None:
        for job in self._jobs[: self._workers]:
            job.start = now if job.start is None else job.start

    def left(self, rates: Rates, short: bool, now: float) -> float:
        """Return the seconds until all jobs are done."""

        def seconds(job: PendingJob) -> float:
            whole = rates.job(job.kinds, job.runs, short)
            since = 0.0 if job.start is None else max(0.0, now - job.start)
            return max(whole - since, LEAST * whole)

        return wall_time(map(seconds, self._jobs), self._workers)

    def loops_per_step(self, kind: Kind, rates: Rates) -> float:
        """Return the loops per training step of the evaluations of a kind."""
        if kind not in self._loops_per_step:
            loops = trained = 0.0
            for job in self._all:
                for one, runs in zip(job.kinds, job.runs, strict=True):
                    if one is kind:
                        loops += rates.loops(one, runs, len(job.kinds))
                        trained += sum(part.trained for part in runs)
            self._loops_per_step[kind] = loops / trained if trained else 1.0
        return self._loops_per_step[kind]
