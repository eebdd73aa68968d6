"""Work that each phase of a study is expected to need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from optsmith.searchers import Rungs
from optsmith.study._context import RACE, REFINE, REPORT, SEARCH, SELECTION
from optsmith.study._stages import stages_of
from optsmith.study._work import Runs, Work, runs_of
from optsmith.task import Contest, Preset, Stage

PHASES = (
    "opponents",
    "search",
    "refinement",
    "tuning",
    "report",
    "speed-up",
    "checks",
    "equal tuning",
)
"""Phases of a study, in order."""

PER_ACCEPTED = 1.4
"""Evaluations per accepted candidate; the others are rejected."""

REFINED, REFINED_MIXTURE = (3,), (18, 5, 5)
"""Forms of a rule that each comparison of a refinement usually has."""

REFINING = 3
"""Blocks of seeds on which each form is evaluated."""

EXTRA_BLOCKS = 1
"""Blocks of seeds after the first look that are expected: usually there are 0, 1 or 3."""

IMPROVED, GENERATIONS, SETTINGS = 9, 6, 8
"""Forms of rules under decays; generations of the best one's constants, and settings in each."""

GENERATION = 16
"""Candidates that are tuned together, if only constants are."""


def work_of(settings: Preset, opponents: int) -> Mapping[str, tuple[Work, ...]]:
    """Return the work of each phase of a study: evaluations that are started together, in order.

    Args:
        settings: Settings of the search; a relative threshold need not be resolved.
        opponents: Number of opponents at the start of the race.
    """
    contest, stages = settings.contest, stages_of(settings)
    finalists = min(opponents, contest.finalists or opponents) if contest.race else opponents
    compared = finalists + settings.proposals
    rules = settings.proposals / compared
    found: dict[str, tuple[Work, ...]] = dict.fromkeys(PHASES, ())
    found["opponents"] = _race(settings, opponents)
    found["search"] = _search(settings, stages[SEARCH])
    if settings.refine:
        forms = REFINED_MIXTURE if settings.fixed_lr else REFINED
        each = runs_of(stages[REFINE], lr=1.0)
        improved = () if settings.fixed_lr else _improvement(stages[SELECTION], stages[REFINE])
        shorter = (Work(REFINING * n, each, alike=n) for n in forms)
        found["refinement"] = (*improved, *shorter)
    found["tuning"] = _tuning(settings, compared, rules, stages[SELECTION])
    found["report"] = _reports(contest, compared, rules, stages[REPORT])
    if contest.horizons:
        every = [runs_of(stages[REPORT], share, lr=1.0) for share in contest.horizons]
        middle = every[len(every) // 2]
        found["speed-up"] = (Work(len(every), middle, alike=1),)
    if contest.checks and contest.looks:
        # The rule at two learning rates; rule and opponent at twice the length.
        found["checks"] = (Work(4, runs_of(stages[REPORT], 1.5, lr=1.0), 0.75, alike=2),)
    if settings.equally_tuned and contest.looks:
        found["equal tuning"] = equal_tuning(settings)
    return found


def _improvement(selection: Stage, refine: Stage) -> tuple[Work, ...]:
    """Return the work for rules without tuned constants: decays in front, then their numbers."""
    tuned = runs_of(selection, around=1.0)
    generations = (Work(SETTINGS, runs_of(refine, lr=1.0)),) * GENERATIONS
    return Work(IMPROVED, tuned), *generations, Work(1, tuned)


def equal_tuning(settings: Preset, trained: float | None = None) -> tuple[Work, ...]:
    """Return the work of tuning all constants of an opponent.

    Args:
        settings: Settings of the search.
        trained: Training steps that the search took; None: those that it is expected to take.
    """
    stages = stages_of(settings)
    if trained is None:
        trained = sum(work.trained for work in _search(settings, stages[SEARCH]))
    generation = Work(GENERATION, runs_of(stages[SEARCH], lr=1.0), of_rules=1.0)
    count = max(1, round(trained / generation.trained))
    last = (runs_of(stages[SELECTION], around=1.0), runs_of(stages[REPORT], lr=1.0))
    return (*(generation,) * count, *(Work(1, runs) for runs in last))


def survivors(opponents: int, contest: Contest) -> tuple[int, ...]:
    """Return how many opponents start at each fidelity of the race, and how many are left after it.

    Numbers fall as runs get longer, so that all fidelities cost about the same. Twice as many as
    there are finalists are left, and are evaluated as candidates of the search are.
    """
    left = min(opponents, 2 * (contest.finalists or opponents))
    shares = (contest.race[0] / fidelity for fidelity in contest.race)
    started = (max(left, math.ceil(round(opponents * share, 9))) for share in shares)
    return (*started, left)


def _race(settings: Preset, opponents: int) -> tuple[Work, ...]:
    contest, stages = settings.contest, stages_of(settings)
    if not contest.race or not opponents:
        return ()
    *started, left = survivors(opponents, contest)
    races = [
        Work(count, runs_of(stages[RACE], fidelity, around=1.0 if i else None), 0.0)
        for i, (count, fidelity) in enumerate(zip(started, contest.race, strict=True))
    ]
    return (*races, Work(left, runs_of(stages[SEARCH]), 0.0))


def _search(settings: Preset, stage: Stage) -> tuple[Work, ...]:
    if settings.fixed_lr:
        return (Work(settings.budget, runs_of(stage, lr=1.0)),)
    found: list[Work] = []
    for fidelity, share in rungs_of(settings):
        wasted = PER_ACCEPTED if not found else 1.0  # what is promoted has been accepted
        found.append(Work(settings.budget * share * wasted, runs_of(stage, fidelity)))
    return tuple(found)


def affordable(settings: Preset, runs: float) -> int:
    """Return the number of candidates for which some full runs usually suffice, at least one."""
    many = 1000
    stage = stages_of(settings)[SEARCH]
    each = sum(work.trained for work in _search(replace(settings, budget=many), stage)) / many
    return max(1, int(runs * settings.protocol.final_steps / each))


def _tuning(settings: Preset, compared: int, rules: float, stage: Stage) -> tuple[Work, ...]:
    """Return the work of tuning finalists around learning rates that shorter runs have found.

    Opponents that did not race have none.
    """
    around, anew = runs_of(stage, around=1.0), runs_of(stage)
    if settings.contest.race or around == anew:
        return (Work(compared, around, rules),)
    known, unknown = around[0], anew[0]
    mixed = Runs(
        rules * known.count + (1 - rules) * unknown.count,
        known.steps,
        rules * known.sets + (1 - rules) * unknown.sets,
    )
    return (Work(compared, (mixed, *around[1:]), rules),)


def _reports(contest: Contest, compared: int, rules: float, stage: Stage) -> tuple[Work, ...]:
    """Return the work of all rows, and of the seeds that are added for two of them."""
    runs = runs_of(stage, lr=1.0)
    first = Work(compared, runs, rules)
    more = Work(2 * EXTRA_BLOCKS, runs, 0.5, alike=2)
    return (first, more) if len(contest.looks) > 1 else (first,)


def rungs_of(settings: Preset) -> list[tuple[float, float]]:
    """Return the fidelities of a search, each with its share of the budget."""
    text = settings.options.get("rungs", "1")
    fidelities = Rungs.parse(str(text)).fidelities
    return [(fidelity, fidelities[0] / fidelity) for fidelity in fidelities]
