"""Forecast of the time left of a study, including the final comparison."""

from __future__ import annotations

from collections.abc import Mapping

from optsmith.evaluation import Evaluation, Status
from optsmith.optim import form_of, is_baseline, parse_recipe
from optsmith.study._cost import PHASES, Work, rungs_of, work_of
from optsmith.task import Preset

DECAY = 0.95
"""Weight of an evaluation relative to the next one, so that rates are recent."""

TRUST = 4
"""Evaluations after which a measured rate counts as much as what was expected."""

MOST_IDLE = 2.0
"""Maximum factor for workers that wait for each other during a search."""

SEARCH = "search"
SHORT = ("opponents", SEARCH)
"""Phases whose runs are shorter, or those of a proxy."""


class Forecast:
    """Estimates the time left from the expected work and the recent time of evaluations.

    The seconds of evaluations are used, not the times at which they arrive, so evaluations of
    earlier sessions count as well. Rules and opponents have separate rates, because opponents that
    are not rules cannot be trained in stacks, and take longer.

    All times are of one clock, such as `time.monotonic`.

    Args:
        settings: Settings of the search.
        opponents: Number of opponents at the start of the race.
        workers: Number of workers; 0 counts as one.
        ratio: Time of a step of a full run, relative to one of the search; see `step_ratio`.
        search_until: Seconds of the study at which the search ends; None: no limit.
        until: Seconds of the study at which all of it ends, because parts are left out; None: no
            limit.
        start: Time at which the session started.
        before: Seconds of earlier sessions.
    """

    def __init__(
        self,
        settings: Preset,
        opponents: int,
        workers: int,
        *,
        ratio: float = 1.0,
        search_until: float | None = None,
        until: float | None = None,
        start: float = 0.0,
        before: float = 0.0,
    ) -> None:
        self._workers = max(1, workers)
        self._ratio, self._search_until, self._until = ratio, search_until, until
        self._start, self._before, self._last = start, before, start
        self._work = dict(work_of(settings, opponents))
        self._trained = {(phase, of_rules): 0.0 for phase in PHASES for of_rules in _BOTH}
        self._rates = {(of_rules, short): _Rate() for of_rules in _BOTH for short in _BOTH}
        self._search = _SearchProgress(settings, self._workers)

    def add(self, phase: str, evaluation: Evaluation, now: float) -> None:
        """Count an evaluation; of the search, only new ones, not duplicates.

        Phases before it are over.
        """
        for earlier in PHASES[: PHASES.index(phase)]:
            self.skip(earlier)
        recipe, short = evaluation.recipe, phase in SHORT
        self._trained[phase, not is_baseline(recipe)] += evaluation.trained
        if not is_baseline(recipe) or form_of(parse_recipe(recipe)) is not None:
            self._rates[True, short].add(evaluation.seconds, evaluation.trained)
        if is_baseline(recipe):
            self._rates[False, short].add(evaluation.seconds, evaluation.trained)
        if phase == SEARCH:
            self._search.add(evaluation, now - self._last)
        self._last = now

    def skip(self, phase: str) -> None:
        """Count a phase as over."""
        self._work[phase] = ()

    def left(self, now: float) -> float | None:
        """Return the seconds left; None before the first evaluation."""
        if not any(rate.known for rate in self._rates.values()):
            return None
        total = sum(self._phase_left(phase) for phase in PHASES)
        if self._until is not None:
            total = min(total, max(self._least_left(), self._until - self._elapsed(self._last)))
        # Evaluations under way have progressed since the last one; how far is not known.
        return max(total - max(0.0, now - self._last), 0.1 * total)

    def done(self, now: float) -> float:
        """Return the fraction of the study's time that has passed; 0 if nothing is known yet."""
        left, elapsed = self.left(now), self._elapsed(now)
        return 0.0 if left is None or elapsed <= 0 else elapsed / (elapsed + left)

    def _elapsed(self, now: float) -> float:
        return self._before + now - self._start

    def _least_left(self) -> float:
        """Return the seconds of the phase that is under way, which is finished in any case."""
        phase = next((phase for phase in PHASES if self._work[phase]), None)
        return 0.0 if phase in (None, SEARCH) else self._phase_left(phase)

    def _phase_left(self, phase: str) -> float:
        if phase == SEARCH:
            known = self._per_step(of_rules=True, short=True)
            seconds = self._search.left(known) if self._work[SEARCH] else 0.0
            if self._search_until is None:
                return seconds
            return min(seconds, max(0.0, self._search_until - self._elapsed(self._last)))
        if not self._work[phase]:
            return 0.0
        per_step = {of_rules: self._per_step(of_rules, phase in SHORT) for of_rules in _BOTH}
        trained = {of_rules: self._trained[phase, of_rules] for of_rules in _BOTH}
        seconds = 0.0
        for work in self._work[phase]:  # one after the other
            rest = {}
            for of_rules in _BOTH:
                expected = work.share(of_rules) * work.trained
                rest[of_rules] = max(0.0, expected - trained[of_rules])
                trained[of_rules] -= expected - rest[of_rules]
            seconds += self._seconds(work, rest, per_step)
        # A phase goes on until it is skipped, even if it takes longer than expected.
        last = self._work[phase][-1]
        return max(seconds, 0.5 * last.runs * last.steps * per_step[last.of_rules > 0.5])

    def _seconds(
        self, work: Work, rest: Mapping[bool, float], per_step: Mapping[bool, float]
    ) -> float:
        """Return the seconds of the rest of some work, in training steps, on all workers."""
        rounds = work.rounds(self._workers)
        if rounds == 1:  # all wait for the slowest
            alone = (rest[kind] / max(work.share(kind), 1e-9) * per_step[kind] for kind in _BOTH)
            return max(alone) / max(1.0, work.evaluations)
        width = work.evaluations / rounds
        return sum(rest[kind] * per_step[kind] for kind in _BOTH) / width

    def _per_step(self, of_rules: bool, short: bool) -> float:
        """Return the seconds per step of similar evaluations, the most similar ones first."""
        factor = 1 / self._ratio if short else self._ratio
        for kind in (of_rules, not of_rules):
            same, other = self._rates[kind, short], self._rates[kind, not short]
            if other.known:
                return same.blended(factor * other.get())
            if same.known:
                return same.get()
        return 0.0


class _SearchProgress:
    """The progress of a search, in accepted candidates at full fidelity."""

    def __init__(self, settings: Preset, workers: int) -> None:
        rungs = rungs_of(settings)
        self._total = settings.budget * sum(fidelity * share for fidelity, share in rungs)
        self._steps = sum(work.trained for work in work_of(settings, 0)[SEARCH]) / self._total
        self._counts_all = bool(settings.options.get("count_all"))
        self._full, self._workers = settings.protocol.steps, workers
        self._done, self._seen = 0.0, 0
        self._rate = _Rate()  # seconds of work per candidate
        self._idle = _Rate()  # seconds per second of work on every worker

    def add(self, evaluation: Evaluation, elapsed: float) -> None:
        counts = self._counts_all or evaluation.status is Status.OK
        units = evaluation.steps / self._full if counts else 0.0
        self._done += units
        self._rate.add(evaluation.seconds, units)
        self._seen += 1
        if self._seen > 2 * self._workers:  # the first ones arrive before others under way
            self._idle.add(elapsed, evaluation.seconds / self._workers)

    def left(self, per_step: float) -> float:
        """Return the seconds left, given the seconds per step."""
        expected = self._steps * per_step
        per_unit = (self._rate.over + TRUST * expected) / (self._rate.under + TRUST)
        # Less than 1 is the replay of an earlier session, which takes no time.
        idle = min(max(1.0, self._idle.get()), MOST_IDLE) if self._idle.known else 1.0
        # A search goes on until it is skipped, even if it takes longer than expected.
        return max(self._total - self._done, 0.5) * per_unit * idle / self._workers


class _Rate:
    """A ratio of two sums in which recent terms weigh more."""

    def __init__(self) -> None:
        self.over = self.under = self.count = 0.0

    def add(self, over: float, under: float) -> None:
        self.over, self.under = DECAY * self.over + over, DECAY * self.under + under
        self.count = DECAY * self.count + 1

    @property
    def known(self) -> bool:
        return self.under > 0

    def get(self) -> float:
        return self.over / self.under

    def blended(self, expected: float) -> float:
        """Return the ratio, with an expectation that weighs as much as `TRUST` terms."""
        share = self.count / (self.count + TRUST) if self.known else 0.0
        return share * self.get() + (1 - share) * expected if share else expected


_BOTH = (True, False)
