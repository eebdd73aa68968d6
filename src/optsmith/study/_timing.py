"""Expected time of the phases of a study."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith.study._cost import GENERATION, work_of
from optsmith.study._pace import RunTime, Speed
from optsmith.study._work import SIDE_BY_SIDE, Runs, Work, wall_time
from optsmith.task import Preset

EFFICIENCY = 0.8
"""Speed of workers that train at the same time, relative to one that trains alone."""

AT_ONCE = 2
"""Jobs per generation of a searcher that tunes constants."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Predicts the time of each phase of a study.

    Attributes:
        speed: Time of the task's runs on one worker.
        proxy: Time of the runs of the search and of the race.
        workers: Number of workers.
        plain_share: Share of the opponents that cannot be trained in stacks.
    """

    speed: Speed
    proxy: Speed
    workers: int
    plain_share: float

    def phases(self, settings: Preset, opponents: int) -> dict[str, float]:
        """Return the expected seconds of each phase."""
        return {
            phase: sum(self._seconds(phase, work, settings.fixed_lr) for work in every)
            for phase, every in work_of(settings, opponents).items()
        }

    def _seconds(self, phase: str, work: Work, fixed_lr: bool) -> float:
        speed = self.proxy if phase in ("opponents", "search") else self.speed
        group = SIDE_BY_SIDE if speed.is_stacked else 1
        cost = speed.rule_cost if fixed_lr and speed.is_stacked else 1.0
        if phase == "search":  # it keeps all workers busy
            together = GENERATION // AT_ONCE if fixed_lr and speed.is_stacked else group
            seconds = work.evaluations * self._each(work, speed, together, cost) / self.workers
        else:
            jobs = (size * self._each(work, speed, size, cost) for size in work.jobs(group))
            seconds = wall_time(jobs, self.workers)
        return seconds / EFFICIENCY

    def _each(self, work: Work, speed: Speed, together: int, rule_cost: float) -> float:
        """Return the seconds of one evaluation of a job of `together`."""
        opponents = 1 - work.of_rules
        plain = opponents * self.plain_share
        stacked = work.of_rules * rule_cost + opponents - plain
        alone = sum(runs.count * speed.plain.seconds(runs.steps) for runs in work.runs)
        side_by_side = sum(_stacked(runs, speed.stacked, together) for runs in work.runs)
        return plain * alone + stacked * side_by_side


def _stacked(runs: Runs, time: RunTime, together: int) -> float:
    """Return the seconds of runs in stacks, as one of several evaluations."""
    return runs.count * time.seconds(runs.steps, together * runs.count / runs.sets)
