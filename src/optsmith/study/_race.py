"""The race of the opponents: many start, the best few are compared with the rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from optsmith.evaluation import Evaluation
from optsmith.study._context import RACE, SEARCH
from optsmith.study._cost import survivors
from optsmith.study._ledger import Entry, Ledger
from optsmith.task import Contest, Objective

PHASE = "opponents"


@dataclass(frozen=True, slots=True)
class Finalist:
    """A recipe of the final comparison.

    Attributes:
        recipe: Text of the rule or opponent.
        lr: A learning rate that was good in shorter runs; None if it is not known.
        score: Its score there; None if it is not known.
    """

    recipe: str
    lr: float | None = None
    score: float | None = None

    @classmethod
    def of(cls, evaluation: Evaluation) -> Finalist:
        """Return the finalist of an evaluation with shorter runs."""
        return cls(evaluation.recipe, evaluation.lr, evaluation.score)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """An opponent that left the race.

    Attributes:
        recipe: Text of the opponent.
        fidelity: Share of a full run that it was trained for.
        score: Its score there; None if it had none.
        lr: Its best learning rate there.
        reason: Why it has no score; empty if it has one.
    """

    recipe: str
    fidelity: float
    score: float | None
    lr: float | None
    reason: str = ""


def race(
    ledger: Ledger,
    opponents: Sequence[str],
    contest: Contest,
    share: float,
    objective: Objective,
    rival: Callable[[Evaluation], None],
    entered: Callable[[str, int], None],
) -> tuple[list[Finalist], list[Raced]]:
    """Return the opponents that reach the final comparison, best first, and those that do not.

    All of them are trained for the fractions of a run in `contest.race`, each at a coarse grid of
    learning rates. The best are evaluated as candidates of the search are, so that rules and
    opponents can be compared while the search runs.

    Args:
        ledger: Evaluates the opponents.
        opponents: Texts of the opponents.
        contest: The settings of the race.
        share: Length of the search's runs, as a share of a full run.
        objective: The objective of the task.
        rival: Called with the best opponent, once it is evaluated as a candidate of the search.
        entered: Called with the phase and the number of evaluations that are added to it.
    """
    if not contest.race or not opponents:
        return [Finalist(recipe) for recipe in opponents], []
    left: list[Raced] = []
    staying = [Finalist(recipe) for recipe in opponents]
    for fidelity, kept in zip(contest.race, survivors(len(opponents), contest)[1:], strict=True):
        entries = [Entry(RACE, one.recipe, fidelity, around=one.lr) for one in staying]
        entered(PHASE, ledger.missing(entries))
        found = ledger.evaluate(PHASE, entries)
        staying = _best(_in_turns(_ranked(found, objective)), kept, fidelity, left)
    entries = [Entry(SEARCH, one.recipe) for one in staying]
    entered(PHASE, ledger.missing(entries))
    found = ledger.evaluate(PHASE, entries)
    finalists = _best(_ranked(found, objective), contest.finalists or len(opponents), share, left)
    best = next((e for e in found if finalists and e.recipe == finalists[0].recipe), None)
    if best is not None:
        rival(best)
    return finalists, left


def _ranked(found: Sequence[Evaluation], objective: Objective) -> list[Evaluation]:
    """Return evaluations, best first."""
    return sorted(found, key=lambda e: math.inf if e.score is None else objective.key(e.score))


def _in_turns(ranked: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the best opponent of each schedule, then the second of each, and so on.

    In short runs a constant learning rate does as well as a decay, or better, so schedules are not
    compared by them.
    """
    schedules: dict[str, list[Evaluation]] = {}
    for evaluation in ranked:
        schedules.setdefault(evaluation.recipe.partition("+")[2], []).append(evaluation)
    turns = zip_longest(*schedules.values())
    return [evaluation for turn in turns for evaluation in turn if evaluation is not None]


def _best(
    ranked: Sequence[Evaluation], count: int, fidelity: float, left: list[Raced]
) -> list[Finalist]:
    """Return the first `count` opponents that have a score; the others are appended to `left`."""
    staying = [e for e in ranked if e.score is not None][:count]
    left += [
        Raced(
            recipe=e.recipe,
            fidelity=fidelity,
            score=e.score,
            lr=e.lr,
            reason="" if e.score is not None else e.error or e.status.value.replace("_", " "),
        )
        for e in ranked
        if e not in staying
    ]
    return [Finalist.of(e) for e in staying]
