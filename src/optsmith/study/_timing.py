"""Expected time of the phases of a study."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith.study._cost import Work, work_of
from optsmith.study._pace import Speed
from optsmith.task import Preset

EFFICIENCY = 0.8
"""Speed of workers that train at the same time, relative to one that trains alone."""


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
            phase: sum(self._seconds(phase, work) for work in every)
            for phase, every in work_of(settings, opponents).items()
        }

    def _seconds(self, phase: str, work: Work) -> float:
        speed = self.proxy if phase in ("opponents", "search") else self.speed
        stacked = work.of_rules + (1 - work.of_rules) * (1 - self.plain_share)
        run = stacked * speed.stacked.seconds(work.steps)
        run += (1 - stacked) * speed.plain.seconds(work.steps)
        # A search keeps all workers busy.
        is_search = phase == "search"
        rounds = work.evaluations / self.workers if is_search else work.rounds(self.workers)
        return rounds * work.runs * run / EFFICIENCY
