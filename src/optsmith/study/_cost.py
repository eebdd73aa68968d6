"""Training runs that each phase of a study is expected to need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optsmith.searchers import Rungs
from optsmith.task import Contest, Preset, Protocol

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

COARSE = 3.75 + 1
"""Runs of a halved grid of seven learning rates, and of its usual extensions."""

FINE = 6
"""Runs that try three learning rates with two seeds."""

AROUND = FINE + 1
"""Runs that tune around a known learning rate, with the usual extensions."""

HALVED = 0.5
"""Share of a grid's runs that is trained if the worse half is stopped twice."""

REFINED, REFINING_RUNS = 16, 6
"""Forms that a refinement usually compares, and runs for each."""

IMPROVED, TUNED = 9, 48
"""Forms of the best rules under decays, and settings of the constants of the best of them."""

EXTRA_LOOKS = 0.5
"""Share of the seeds after the first look that is expected to be needed."""


@dataclass(frozen=True, slots=True)
class Work:
    """Evaluations of one kind.

    Attributes:
        evaluations: Their expected number.
        runs: Training runs per evaluation.
        steps: Steps per run.
        of_rules: Share that evaluates rules; the rest evaluates opponents.
    """

    evaluations: float
    runs: float
    steps: int
    of_rules: float = 1.0

    @property
    def trained(self) -> float:
        """Training steps of all evaluations."""
        return self.evaluations * self.runs * self.steps

    def share(self, of_rules: bool) -> float:
        """Return the share that evaluates rules, or opponents."""
        return self.of_rules if of_rules else 1 - self.of_rules

    def rounds(self, workers: int) -> int:
        """Return the evaluations that the busiest worker does."""
        return math.ceil(self.evaluations / workers)


def work_of(settings: Preset, opponents: int) -> Mapping[str, tuple[Work, ...]]:
    """Return the work of each phase of a study, one kind after the other.

    Args:
        settings: Settings of the search.
        opponents: Number of opponents at the start of the race.
    """
    protocol, contest = settings.protocol, settings.contest
    finalists = min(opponents, contest.finalists or opponents) if contest.race else opponents
    compared = finalists + settings.proposals
    rules = settings.proposals / compared
    full = protocol.final_steps
    found: dict[str, tuple[Work, ...]] = dict.fromkeys(PHASES, ())
    found["search"] = _search(settings)
    if settings.refine:
        improved = () if settings.fixed_lr else _improvement(contest, full)
        found["refinement"] = (*improved, Work(REFINED, REFINING_RUNS, full))
    found["opponents"] = _race(settings, opponents)
    if not contest.looks:  # one final evaluation tunes the learning rate and reports
        tune = protocol.tune_steps or protocol.proxy_steps
        found["report"] = (
            Work(compared, tuning_runs(protocol), tune, rules),
            Work(compared, protocol.final_seeds, full, rules),
        )
        return found
    if settings.equally_tuned:
        found["equal tuning"] = tuple(replace(w, of_rules=0.0) for w in found["search"])
    first = contest.looks[0]
    found["tuning"] = (Work(compared, AROUND + contest.selection_seeds, full, rules),)
    more = EXTRA_LOOKS * (contest.looks[-1] - first)
    found["report"] = (Work(compared, first, full, rules), Work(2, more, full, 0.5))
    if horizons := contest.horizons:
        mean = sum(horizons) / len(horizons)
        found["speed-up"] = (Work(len(horizons), first, round(mean * full)),)
    if contest.checks:  # the rule at two learning rates; rule and opponent at twice the length
        found["checks"] = (Work(4, first, round(1.5 * full), 0.75),)
    return found


def _improvement(contest: Contest, full: int) -> tuple[Work, ...]:
    """Return the work for rules without tuned constants: decays in front, then their numbers."""
    tuned = AROUND + contest.selection_seeds
    return Work(IMPROVED, tuned, full), Work(TUNED, 2, full), Work(1, tuned, full)


def tuning_runs(protocol: Protocol) -> float:
    """Return the runs that tune one learning rate without a guess."""
    if protocol.lr_search == "auto":
        return COARSE + FINE
    return len(protocol.lrs) * (HALVED if protocol.lr_search == "halving" else 1.0)


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
    protocol, contest = settings.protocol, settings.contest
    if not contest.race or not opponents:
        return ()
    *started, left = survivors(opponents, contest)
    runs = (COARSE, *(AROUND,) * (len(started) - 1))
    races = (
        Work(count, per, max(1, round(fidelity * protocol.final_steps)), 0.0)
        for count, per, fidelity in zip(started, runs, contest.race, strict=True)
    )
    return (*races, *_candidates(protocol, left, 1.0, 0.0))


def _search(settings: Preset) -> tuple[Work, ...]:
    if settings.fixed_lr:
        protocol = settings.protocol
        return (Work(settings.budget, protocol.score_seeds, protocol.steps),)
    found: list[Work] = []
    for fidelity, share in rungs_of(settings):
        wasted = PER_ACCEPTED if not found else 1.0  # what is promoted has been accepted
        count = settings.budget * share * wasted
        found += _candidates(settings.protocol, count, fidelity, 1.0)
    return tuple(found)


def _candidates(
    protocol: Protocol, count: float, fidelity: float, of_rules: float
) -> tuple[Work, ...]:
    """Return the work of candidates of the search: they are tuned, then scored."""
    tune, score = protocol.proxy_steps * fidelity, protocol.steps * fidelity
    return (
        Work(count, tuning_runs(protocol), max(1, round(tune)), of_rules),
        Work(count, protocol.score_seeds, max(1, round(score)), of_rules),
    )


def rungs_of(settings: Preset) -> list[tuple[float, float]]:
    """Return the fidelities of a search, each with its share of the budget."""
    text = settings.options.get("rungs", "1")
    fidelities = Rungs.parse(str(text)).fidelities
    return [(fidelity, fidelities[0] / fidelity) for fidelity in fidelities]
