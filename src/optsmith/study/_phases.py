"""The phases of a study: opponents race, rules are searched, the best of both are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optsmith.evaluation import Ablation
from optsmith.execution import Executor
from optsmith.screening import Screen
from optsmith.searchers import Genome, UpdateSize
from optsmith.study._begin import Begun
from optsmith.study._clock import Clock
from optsmith.study._contest import Comparing, Result
from optsmith.study._context import SEARCH, Context, prepare, run_job
from optsmith.study._ending import TimeIsUp
from optsmith.study._equal import EqualTuning
from optsmith.study._forecast import Forecast
from optsmith.study._guard import Guard
from optsmith.study._improve import Improver
from optsmith.study._known import without_known
from optsmith.study._ledger import Ledger
from optsmith.study._observer import Observer
from optsmith.study._race import PHASE as OPPONENTS
from optsmith.study._race import Finalist, Raced, race
from optsmith.study._recorder import Recorder
from optsmith.study._refine import PHASE as REFINEMENT
from optsmith.study._refine import Refiner
from optsmith.study._runner import Runner
from optsmith.study._stages import looks_of, stages_of
from optsmith.study._starts import all_starts, starts_of
from optsmith.study._stop import Moment, StoredEnding
from optsmith.study._tally import Tally
from optsmith.study._timed_ledger import TimedLedger
from optsmith.study._work import SIDE_BY_SIDE
from optsmith.task import Preset

RESERVE = 0.97
"""Share of the time after which optional parts of the comparison are left out."""


def run_phases(begun: Begun, executor: Executor, observer: Observer) -> None:
    """Run all phases of a study; those that are stored take no time."""
    terms, task = begun.terms, begun.prepared.task
    settings, stacking = begun.settings, begun.stacking
    context = Context(task, stages_of(terms), stacking, settings.device, begun.prepared.proxy)
    executor.start(run_job, context, prepare)
    searcher = begun.prepared.searcher(settings)
    clock = Clock(begun.store, begun.start)
    # A time limit applies to a single candidate.
    is_stacked = stacking.copies > 1 and settings.time_limit is None
    group = SIDE_BY_SIDE if is_stacked else 1
    forecast = Forecast(
        terms,
        settings.opponents,
        executor.workers,
        stacking=stacking,
        group=group,
        batch=searcher.batch,
        ratio=settings.step_ratio,
        rule_cost=settings.rule_cost,
        search_until=settings.search_until,
        until=_until(settings.max_time),
        start=begun.start,
        before=clock.before,
    )
    tally = Tally(task.objective)
    recorder = Recorder(begun.store, searcher, tally, observer, clock, forecast)
    guard = Guard(settings.task, None)
    ledger = Ledger(begun.store, executor, group, recorder.evaluated, guard, recorder.begun)
    try:
        location = begun.store.location
        observer.started(settings, searcher, tally, executor.workers, location, forecast)
        _announce(begun, recorder, observer)
        share = terms.protocol.steps / terms.protocol.final_steps
        opponents, raced = race(
            ledger,
            settings.opponents,
            terms.contest,
            share,
            task.objective,
            observer.rival,
            observer.entered,
        )
        recorder.skip(OPPONENTS)
        screen = _screen(begun)
        searcher.allows = lambda rule: not screen.exceeded(rule)
        searcher.begin(all_starts(settings, opponents, raced))
        _search(begun, executor, recorder, group, screen)
        recorder.skip(SEARCH)
        result = _compare(begun, ledger, recorder, opponents, raced)
        recorder.finish(result, raced)
    finally:
        recorder.save()
        observer.finished()


def _compare(
    begun: Begun,
    ledger: Ledger,
    recorder: Recorder,
    opponents: Sequence[Finalist],
    raced: Sequence[Raced],
) -> Result:
    """Shorten the best rule, and compare it with the opponents."""
    terms, task, tally = begun.terms, begun.prepared.task, recorder.tally
    ledger.trained[SEARCH] = tally.trained
    until, first = _until(begun.settings.max_time), looks_of(terms)[0]
    entered, forecast = recorder.observer.entered, recorder.forecast
    timed = TimedLedger(ledger, recorder.clock, until, first, entered, forecast)
    rules = _proposed(recorder, terms)
    ablation: tuple[Ablation, ...] = ()
    if terms.refine and rules and not terms.fixed_lr:
        rules = Improver(timed, task.objective, begun.settings.seed).improve(rules)
    if terms.refine and rules:
        known = [Genome(s.rule, s.lr) for s in starts_of(opponents, raced) if s.lr is not None]
        refined = Refiner(timed, task.objective, UpdateSize(known).of).refine(rules[0])
        rules[0], ablation = refined.finalist, refined.parts
    recorder.skip(REFINEMENT)
    result = Comparing(timed, terms, task.objective, task.metrics).run(rules, opponents)
    claim = result.claim
    if claim is None:
        return result
    if claim.rule == rules[0].recipe:
        claim = replace(claim, ablation=ablation)
    if terms.equally_tuned:
        row = next(row for row in result.rows if row.recipe == claim.rule)
        claim = EqualTuning(timed, terms, task.objective).extend(claim, row)
    return replace(result, claim=claim)


def _proposed(recorder: Recorder, terms: Preset) -> list[Finalist]:
    """Return the rules that the searcher recommends; otherwise those with the best scores."""
    searcher = recorder.searcher
    recommended = [p for p in searcher.proposals() if searcher.allows(p.rule)]
    if recommended:
        return [Finalist(str(p.rule), p.lr) for p in recommended[: terms.proposals]]
    best = recorder.tally.best(len(recorder.tally.evaluated))
    if not terms.proposes_known:
        best = without_known(best, terms.proposals)
    return [Finalist.of(e) for e in best[: terms.proposals]]


def _until(max_time: float | None) -> float | None:
    """Return the seconds of a study after which optional parts are left out."""
    return None if max_time is None else RESERVE * max_time


def _announce(begun: Begun, recorder: Recorder, observer: Observer) -> None:
    """Say what the user should know before the first phase."""
    for note in begun.notes:
        observer.noted(note)
    observer.stacked(begun.stacking)
    if begun.settings.plan:
        observer.planned(begun.settings.plan)
    if recorder.count:
        observer.resumed(recorder.count)


def _screen(begun: Begun) -> Screen:
    """Return the screen of the search."""
    terms, usual = begun.terms, Screen()
    return Screen(
        descent=usual.descent if terms.descent else None,
        trajectory=usual.trajectory if terms.trajectory else None,
        seed=begun.settings.seed,
        max_state_bytes=terms.max_state_bytes,
        max_step_cost=terms.max_step_cost,
    )


def _search(
    begun: Begun, executor: Executor, recorder: Recorder, group: int, screen: Screen
) -> None:
    """Run the search, until its searcher is done or a reason ends it."""
    settings, terms, tally = begun.settings, begun.terms, recorder.tally
    moment: list[Moment] = [*begun.moment]
    if settings.search_until is not None and settings.max_time is not None:
        planned, end, forecast = settings.search_until, settings.max_time, recorder.forecast

        def until() -> float:
            # The least of the comparison must fit even if runs take longer than measured.
            return min(planned, RESERVE * end - forecast.needed(fewest=True))

        moment.append(TimeIsUp(recorder.clock.seconds, until, forecast.search_seconds))
    ending = StoredEnding(recorder.clock, tally, terms.budget, begun.outcomes, moment)
    key = _KEYS[terms.dedupe]
    guard = Guard(settings.task)
    Runner(recorder.searcher, screen, key, executor, group, recorder, ending, guard=guard).run()
    if ending.why:
        recorder.observer.noted(f"the search ends: {ending.why}")


_KEYS = {
    "none": lambda screening: "",
    "equal": lambda screening: screening.fingerprint,
    "scale": lambda screening: screening.scale_fingerprint,
}
