"""Forecast of the time left of a study, including the final comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optsmith.evaluation import Evaluation
from optsmith.study._context import SEARCH
from optsmith.study._cost import PHASES, equal_tuning, work_of
from optsmith.study._ledger import Entry
from optsmith.study._pace import plain_share
from optsmith.study._rates import MIXTURE_COST, Kind, Rates
from optsmith.study._search_progress import SearchProgress
from optsmith.study._stages import stages_of
from optsmith.study._under_way import LEAST, PendingJob, UnderWay
from optsmith.study._work import Work, runs_of, wall_time
from optsmith.task import Preset
from optsmith.training import Stacking

SHORT = ("opponents", SEARCH)
"""Phases whose runs are shorter, or those of a proxy."""

OPTIONAL = ("refinement", "speed-up", "checks")
"""Phases that are left out if there is no time for them."""

NEEDED = ("tuning", "report")
"""Phases that there must be time for: their first evaluations, those of all finalists."""

FEWEST = 2
"""Finalists that are compared even if there is no time for them: a rule and an opponent."""


class Forecast:
    """Estimates the time left from the expected work and the recent time of evaluations.

    The seconds of evaluations are used, not the times at which they arrive, so evaluations of
    earlier sessions count as well. What was expected of a phase is replaced by what it does, as
    soon as that is known.

    All times are of one clock, such as `time.monotonic`.

    Args:
        settings: Settings of the search.
        opponents: Texts of the opponents at the start of the race.
        workers: Number of workers; 0 counts as one.
        stacking: Which runs are trained together.
        group: Maximum number of evaluations per job.
        batch: Candidates of the search per job; 0: `group`.
        ratio: Time of a step of a full run, relative to one of the search; see `step_ratio`.
        rule_cost: Cost of a step of a rule of a search of constants; None: the usual one.
        search_until: Seconds of the study at which the search ends; None: no limit.
        until: Seconds of the study at which optional parts are left out; None: no limit.
        start: Time at which the session started.
        before: Seconds of earlier sessions.
    """

    def __init__(
        self,
        settings: Preset,
        opponents: Sequence[str],
        workers: int,
        *,
        stacking: Stacking | None = None,
        group: int = 1,
        batch: int = 0,
        ratio: float = 1.0,
        rule_cost: float | None = None,
        search_until: float | None = None,
        until: float | None = None,
        start: float = 0.0,
        before: float = 0.0,
    ) -> None:
        self._settings, self._group, self._workers = settings, group, max(1, workers)
        self._search_until, self._until = search_until, until
        self._start, self._before, self._last = start, before, start
        self._plain_share = plain_share(opponents)
        self._stages = stages_of(settings)
        stacking = stacking or Stacking()
        is_mixture = settings.fixed_lr and stacking.copies > 1
        cost = (rule_cost or MIXTURE_COST) if is_mixture else 1.0
        self._rates = Rates(stacking, ratio, cost)
        self._work = {p: list(w) for p, w in work_of(settings, len(opponents)).items()}
        together = batch if batch and group > 1 else group
        self._search = SearchProgress(settings, self._rates, together, self._workers)
        self._under_way: UnderWay | None = None  # what is under way outside the search
        self._begun: set[str] = set()
        self._searching = bool(self._work[SEARCH])

    # --- events ----------------------------------------------------------------------------------

    def begin(self, phase: str, jobs: Sequence[Sequence[Entry]], now: float) -> None:
        """Count jobs of a phase as begun, instead of those expected; earlier phases are over."""
        self._advance(phase)
        self._begun.add(phase)
        if self._work[phase]:
            self._work[phase].pop(0)
        kinds = [kind for job in jobs for e in job if (kind := Kind.of(e.recipe)) is not Kind.RULE]
        if kinds:  # of the opponents that are left
            self._plain_share = kinds.count(Kind.PLAIN) / len(kinds)
        if phase == "tuning" and self._work["report"]:  # what is tuned is reported
            first, *rest = self._work["report"]
            self._work["report"] = [replace(first, evaluations=sum(map(len, jobs))), *rest]
        self._under_way = UnderWay(phase, [self._pending(job) for job in jobs], self._workers, now)
        self._last = now

    def add(self, phase: str, evaluation: Evaluation, now: float, varied: bool = False) -> None:
        """Count an evaluation; of the search, only new ones, not duplicates.

        Args:
            phase: Its phase.
            evaluation: The evaluation.
            now: The time.
            varied: Whether it is of a varied candidate of the search.
        """
        self._advance(phase)
        kind = Kind.of(evaluation.recipe)
        if phase == SEARCH:
            share = self._search.loops_per_step
            self._search.add(evaluation, now - self._last, varied)
        else:
            jobs = self._jobs_of(phase)
            share = 1.0 if jobs is None else jobs.loops_per_step(kind, self._rates)
            if jobs is not None:
                jobs.add(evaluation.recipe, now)
        if not varied:  # those tell nothing of others
            loops = share * evaluation.trained
            self._rates.add(kind, phase in SHORT, evaluation.seconds, loops)
        self._last = now

    def progress(self, done: float | None, varied_left: float = 0.0) -> None:
        """Note the fraction of the search that is over, if the searcher knows it.

        Args:
            done: The fraction; None: that of the budget.
            varied_left: Varied candidates that are left, by their length.
        """
        self._search.fraction, self._search.varied_left = done, varied_left

    def skip(self, phase: str) -> None:
        """Count a phase as over."""
        if phase == SEARCH and self._searching:
            self._searching = False
            if self._work["equal tuning"]:
                self._work["equal tuning"] = [*equal_tuning(self._settings, self._search.trained)]
        self._work[phase] = []
        if self._jobs_of(phase) is not None:
            self._under_way = None

    def _advance(self, phase: str) -> None:
        for earlier in PHASES[: PHASES.index(phase)]:
            if self._work[earlier] or self._jobs_of(earlier) is not None:
                self.skip(earlier)

    # --- answers ---------------------------------------------------------------------------------

    def left(self, now: float) -> float | None:
        """Return the seconds left; None before the first evaluation."""
        if not self._rates.known:
            return None
        elapsed, total = self._elapsed(now), 0.0
        for phase in PHASES:
            seconds = self._phase_left(phase, now)
            if phase not in OPTIONAL or self._has_time(elapsed + total + seconds, phase):
                total += seconds
        if self._until is None:
            return total
        # Finalists are left out if there is no time for them, but what has begun is finished.
        under_way = 0.0 if self._under_way is None else self._jobs_left(self._under_way, now)
        least = under_way + self.needed(fewest=not self._jobs_of("tuning"))
        return min(total, max(least, self._until - elapsed))

    def done(self, now: float) -> float:
        """Return the fraction of the study's time that has passed; 0 if nothing is known yet."""
        left, elapsed = self.left(now), self._elapsed(now)
        return 0.0 if left is None or elapsed <= 0 else elapsed / (elapsed + left)

    def seconds(self, jobs: Sequence[Sequence[Entry]]) -> float:
        """Return the expected seconds of jobs of the comparison."""
        every = map(self._pending, jobs)
        times = (self._rates.job(job.kinds, job.runs, short=False) for job in every)
        return wall_time(times, self._workers)

    def search_seconds(self, jobs: Sequence[int]) -> float:
        """Return the expected seconds of jobs of the search, given the candidates of each."""
        return wall_time((self._search.job(size) for size in jobs), self._workers)

    def needed(self, fewest: bool = False) -> float:
        """Return the expected seconds of the comparison, without its optional parts.

        Args:
            fewest: Whether to count only one rule and one opponent.
        """
        seconds = 0.0
        for phase in NEEDED:
            for work in [] if phase in self._begun else self._work[phase][:1]:
                least = replace(work, evaluations=min(FEWEST, work.evaluations), of_rules=0.5)
                seconds += self._seconds(phase, least if fewest else work)
        return seconds

    def reserved(self) -> float:
        """Return the expected seconds of what optional parts leave time for.

        Beside what is needed, that is the equally tuned comparison, which was asked for.
        """
        return self.needed() + self._equal_tuning()

    @property
    def varied_cost(self) -> float:
        """Cost of rules of different structure that are trained together, relative to others."""
        return self._search.varied_cost

    # --- parts -----------------------------------------------------------------------------------

    def _equal_tuning(self) -> float:
        """Return the expected seconds of the equally tuned comparison; 0 once it has begun."""
        phase = "equal tuning"
        if phase in self._begun:
            return 0.0
        return sum(self._seconds(phase, work) for work in self._work[phase])

    def _elapsed(self, now: float) -> float:
        return self._before + now - self._start

    def _has_time(self, end: float, phase: str) -> bool:
        has_begun = self._jobs_of(phase) is not None
        after = self.reserved() if phase == "refinement" else self._equal_tuning()
        return self._until is None or has_begun or end + after <= self._until

    def _phase_left(self, phase: str, now: float) -> float:
        if phase == SEARCH:
            return self._search_left(now) if self._searching else 0.0
        seconds = sum(self._seconds(phase, work) for work in self._work[phase])
        if (jobs := self._jobs_of(phase)) is not None:
            seconds += self._jobs_left(jobs, now)
        return seconds

    def _search_left(self, now: float) -> float:
        total = self._search.left()
        # Evaluations under way have progressed since the last one; how far is not known.
        since = max(0.0, now - self._last) if self._under_way is None else 0.0
        seconds = max(total - since, LEAST * total)
        if self._search_until is None:
            return seconds
        return min(seconds, max(0.0, self._search_until - self._elapsed(now)))

    def _seconds(self, phase: str, work: Work) -> float:
        return self._rates.work(work, self._plain_share, phase in SHORT, self._group, self._workers)

    def _jobs_of(self, phase: str) -> UnderWay | None:
        """Return the jobs under way, if they are of a phase."""
        jobs = self._under_way
        return jobs if jobs is not None and jobs.phase == phase else None

    def _jobs_left(self, jobs: UnderWay, now: float) -> float:
        return jobs.left(self._rates, jobs.phase in SHORT, now)

    def _pending(self, job: Sequence[Entry]) -> PendingJob:
        runs = [runs_of(self._stages[e.stage], e.fidelity, lr=e.lr, around=e.around) for e in job]
        return PendingJob([entry.recipe for entry in job], runs)
