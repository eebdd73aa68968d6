"""Studies without training: what a forecast is told of them, and when, on an invented clock."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from optsmith import Evaluation, Status
from optsmith.study import SIDE_BY_SIDE, Entry
from optsmith.study._context import RACE, REFINE, REPORT, SEARCH, SELECTION
from optsmith.study._cost import survivors
from optsmith.study._forecast import Forecast
from optsmith.study._rates import Kind
from optsmith.study._stages import stages_of
from optsmith.study._work import Runs, job_sizes, runs_of
from optsmith.task import Preset
from optsmith.training import Stacking

STACKED = Stacking(copies=64, parameters=64_000, activations=420_000)
POPULATION = 16


def opponents(count: int, plain: int = 0) -> tuple[str, ...]:
    """Return opponents, some of which are trained one run at a time."""
    return ("torch:adafactor",) * plain + ("torch:adam",) * (count - plain)


@dataclass
class Study:
    """Runs a forecast through all phases of a study, and notes what it says.

    Attributes:
        terms: Settings of the study.
        opponents: Texts of the opponents.
        workers: Number of workers.
        stacking: Which runs are trained together.
        step: Seconds per step of a stack.
        copy: Seconds per step of each copy, or of a run that is trained alone.
        rule_cost: Cost of a step of a rule, relative to opponents.
        accepted: Share of candidates that are accepted.
        drift: How much slower everything is at the end of the search.
        dry: Level of a tree search, from 0, from which on nearly all draws are duplicates.
        forms: Forms of the rule that each comparison of the refinement has.
        varied: Candidates of a search of constants that differ in structure, after a fifth of it.
        varied_cost: Cost of one of them, relative to the others.
        extra: Blocks of seeds that are added to the comparison.
        seed: Seed of all random numbers.
    """

    terms: Preset
    opponents: Sequence[str] = opponents(24)
    workers: int = 2
    stacking: Stacking = STACKED
    step: float = 1e-3
    copy: float = 2e-4
    rule_cost: float = 1.0
    accepted: float = 0.7
    drift: float = 1.0
    dry: int | None = None
    forms: Sequence[int] = (3, 2)
    extra: int = 0
    varied: int = 0
    varied_cost: float = 4.0
    seed: int = 0
    said: list[tuple[float, float | None, str]] = field(default_factory=list)

    def run(self, **settings) -> Study:
        """Run it; `said` then has times and forecasts, and `now` is the end."""
        self._rng, self._slow = random.Random(self.seed), 1.0
        self.now = 0.0
        self._stages = stages_of(self.terms)
        self._group = SIDE_BY_SIDE if self.stacking.copies > 1 else 1
        batch = POPULATION // 2 if self.terms.fixed_lr else 0
        self.forecast = Forecast(
            self.terms, self.opponents, self.workers, stacking=self.stacking, group=self._group,
            batch=batch, **settings,
        )  # fmt: skip
        self._race()
        if self.terms.fixed_lr:
            self._generations()
        else:
            self._tree()
        self.forecast.skip("search")
        self._compare()
        return self

    def worst(self, start: float = 0.1, end: float = 0.85) -> float:
        """Return how far the forecast was off, between two fractions of the time."""
        worst = 1.0
        for time, left, _ in self.said:
            if start * self.now <= time <= end * self.now:
                assert left is not None
                worst = max(worst, left / (self.now - time), (self.now - time) / max(left, 1e-9))
        return worst

    # --- phases ----------------------------------------------------------------------------------

    def _race(self) -> None:
        contest = self.terms.contest
        counts = survivors(len(self.opponents), contest)
        for i, fidelity in enumerate(contest.race):
            names = self.opponents[: counts[i]]
            around = 0.1 if i else None
            self._batch("opponents", [Entry(RACE, n, fidelity, around=around) for n in names])
        self._batch("opponents", [Entry(SEARCH, n) for n in self.opponents[: counts[-1]]])
        self.forecast.skip("opponents")

    def _generations(self) -> None:
        runs = runs_of(self._stages[SEARCH], lr=1.0)
        count, half = self.terms.budget // POPULATION, POPULATION // 2
        varied = self.varied // half
        for generation in range(count - varied // 2):
            self._slow = self.drift ** (generation / count)
            if generation == count // 5:
                self._told([(half, runs, True, None)] * varied, varied=True)
            self._told([(half, runs, True, None)] * 2)

    def _tree(self) -> None:
        levels, budget = 4, self.terms.budget
        runs = runs_of(self._stages[SEARCH])
        accepted = 0
        for level in range(levels):
            jobs = []
            want = -(-budget // levels) if self.dry is None or level < self.dry else 1
            got = 0
            while got < want:
                ok = [self._rng.random() < self.accepted for _ in range(self._group)]
                got += sum(ok)
                accepted += sum(ok)
                done = 1.0 if got >= want else got / want
                jobs.append((self._group, runs, ok, (level + done) / levels))
            self._slow = self.drift ** (level / levels)
            self._told(jobs)

    def _compare(self) -> None:
        terms, contest = self.terms, self.terms.contest
        if terms.refine and not terms.fixed_lr:
            self._batch("refinement", [Entry(SELECTION, "g", around=0.1)] * 9)
            for block in range(6):
                self._batch("refinement", [Entry(REFINE, "g", block=block, lr=0.1)] * 8)
            self._batch("refinement", [Entry(SELECTION, "g", around=0.1)])
        if terms.refine:
            for forms in self.forms:
                entries = [
                    Entry(REFINE, "g", block=b, lr=0.1) for _ in range(forms) for b in (1, 2, 3)
                ]
                self._batch("refinement", entries)
        self.forecast.skip("refinement")
        finalists = ["g"] * terms.proposals + [*self.opponents[: contest.finalists]]
        self._batch("tuning", [Entry(SELECTION, n, around=0.1) for n in finalists])
        self._batch("report", [Entry(REPORT, n, lr=0.1) for n in finalists])
        if self.extra:
            pair = ("g", self.opponents[0])
            blocks = range(1, 1 + self.extra)
            self._batch("report", [Entry(REPORT, n, block=b, lr=0.1) for n in pair for b in blocks])
        if contest.horizons:
            self._batch("speed-up", [Entry(REPORT, "g", h, lr=0.1) for h in contest.horizons])
        if contest.checks:
            entries = [Entry(REPORT, "g", lr=lr) for lr in (0.05, 0.2)]
            entries += [Entry(REPORT, n, 2.0, lr=0.1) for n in ("g", self.opponents[0])]
            self._batch("checks", entries)
        if terms.equally_tuned:
            count = round(self._search_steps() / (POPULATION * 2 * terms.protocol.steps))
            for block in range(count):
                entries = [Entry(SEARCH, "g", block=block, lr=0.1) for _ in range(POPULATION)]
                self._batch("equal tuning", entries)
            self._batch("equal tuning", [Entry(SELECTION, "g", around=0.1)])
            self._batch("equal tuning", [Entry(REPORT, "g", lr=0.1)])

    def _search_steps(self) -> float:
        return self.forecast._search.trained

    # --- jobs ------------------------------------------------------------------------------------

    def _batch(self, phase: str, entries: Sequence[Entry]) -> None:
        """Evaluate entries as a ledger does."""
        alike: dict = {}
        for entry in entries:
            alike.setdefault(entry.alike, []).append(entry)
        jobs = []
        for every in alike.values():
            rest = iter(every)
            jobs += [[next(rest) for _ in range(n)] for n in job_sizes(len(every), self._group)]
        self.forecast.begin(phase, jobs, self.now)
        self._say(phase)
        found = []
        for job, (start, seconds) in zip(jobs, self._schedule(map(self._job, jobs)), strict=True):
            found.append((start + seconds, job, seconds))
        for time, job, seconds in sorted(found, key=lambda each: each[0]):
            for entry in job:
                runs = self._runs(entry)
                self._evaluated(phase, time, entry.recipe, runs, seconds / len(job), Status.OK)

    def _told(self, jobs, varied: bool = False) -> None:
        """Evaluate candidates, which are told in order."""
        cost = self.varied_cost if varied else 1.0
        runs_seconds = [cost * self._seconds(["g"] * n, [runs] * n) for n, runs, _, _ in jobs]
        told = self.now
        for (size, runs, ok, done), (start, seconds) in zip(
            jobs, self._schedule(runs_seconds), strict=True
        ):
            told = max(told, start + seconds)
            for i in range(size):
                self.varied -= varied
                self.forecast.progress(done, self.varied)
                status = Status.OK if ok is True or ok[i] else Status.EARLY_STOPPED
                self._evaluated("search", told, "g", runs, seconds / size, status, varied)

    def _schedule(self, seconds) -> list[tuple[float, float]]:
        """Return start and duration of jobs on the workers."""
        free, found = [self.now] * self.workers, []
        for each in seconds:
            start = heapq.heappop(free)
            heapq.heappush(free, start + each)
            found.append((start, each))
        return found

    def _job(self, job: Sequence[Entry]) -> float:
        return self._seconds([e.recipe for e in job], [self._runs(e) for e in job])

    def _runs(self, entry: Entry) -> tuple[Runs, ...]:
        stage = self._stages[entry.stage]
        return runs_of(stage, entry.fidelity, lr=entry.lr, around=entry.around)

    def _seconds(self, recipes: Sequence[str], runs: Sequence[Sequence[Runs]]) -> float:
        """Return the seconds of a job: its stacks, and the copies in them."""
        total = 0.0
        for recipe, every in zip(recipes, runs, strict=True):
            kind = Kind.of(recipe)
            alone = kind is Kind.PLAIN or self.stacking.copies == 1
            cost = self.rule_cost if kind is Kind.RULE else 1.0
            for part in every:
                loops = part.count if alone else part.sets / len(recipes)
                each = part.steps * (loops * self.step + part.count * self.copy)
                total += cost * self._slow * self._rng.uniform(0.8, 1.2) * each
        return total

    def _evaluated(self, phase, time, recipe, runs, seconds, status, varied=False) -> None:
        self.now = max(self.now, time)
        trained = round(sum(part.trained for part in runs))
        steps = self.terms.protocol.steps if phase == "search" else runs[-1].steps
        evaluation = Evaluation(recipe, status, trained=trained, seconds=seconds, steps=steps)
        self.forecast.add(phase, evaluation, self.now, varied)
        self._say(phase)

    def _say(self, phase: str) -> None:
        self.said.append((self.now, self.forecast.left(self.now), phase))
