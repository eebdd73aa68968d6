"""Improvement of found rules that come without constants: decays in front, tuned numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optsmith.evaluation import Evaluation, Status
from optsmith.rules import Rule, rounded
from optsmith.searchers import tunable, with_weights
from optsmith.study._constants import ConstantTuning
from optsmith.study._context import REFINE, SELECTION
from optsmith.study._ledger import Entry
from optsmith.study._race import Finalist
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Objective

PHASE = "refinement"

FEW = 3
"""Rules in front of which decays are tried."""

DECAYS = ("cd", "ld")

POPULATION, GENERATIONS = 8, 6
"""Settings per generation, and generations, of the best rule's constants."""

FIRST_BLOCK = 60_000
"""First block of seeds; searches and the shortening of rules use those before."""

WORK = 2.2
"""Work of all that follows, relative to the comparison of forms."""

DIGITS = 4
"""Significant digits of tuned numbers."""


class Improver:
    """Improves the best rules of searches whose candidates have no tuned constants.

    Everything is trained at full length and scored on selection seeds.

    Args:
        ledger: Evaluates rules.
        objective: The objective of the task.
        seed: Seed of the search.
    """

    def __init__(self, ledger: TimedLedger, objective: Objective, seed: int) -> None:
        self._ledger, self._objective, self._seed = ledger, objective, seed

    def improve(self, rules: Sequence[Finalist]) -> list[Finalist]:
        """Return the rules, of which the first is improved, as far as there is time for it.

        The best few are compared as they are and under each decay, with learning rates tuned. Then
        all numbers of the best of them are tuned, if that makes it better.
        """
        forms = [form for rule in rules[:FEW] for form in _forms(rule)]
        entries = [Entry(SELECTION, f.recipe, around=f.lr) for f in forms]
        if not entries or not self._ledger.allows(PHASE, entries, WORK):
            return list(rules)
        found = self._ledger.evaluate(PHASE, entries)
        tuned = [e for e in found if e.status is Status.OK and e.score is not None]
        if not tuned:
            return list(rules)
        best = self._with_constants(min(tuned, key=self._loss))
        others = [r for r in rules if r.recipe != best.recipe]
        return [Finalist.of(best), *others][: len(rules)]

    def _with_constants(self, best: Evaluation) -> Evaluation:
        """Return the evaluation of a rule with tuned numbers, or the given one if it is better."""
        rule, lr = Rule.parse(best.recipe), best.lr
        if lr is None:
            return best
        tuning = ConstantTuning(
            self._ledger, self._objective, PHASE, REFINE, FIRST_BLOCK, POPULATION
        )
        found = tuning.tune(tunable(with_weights(rule), ""), lr, self._seed, GENERATIONS)
        again = Entry(SELECTION, str(rounded(found.rule, DIGITS)), around=found.lr)
        (row,) = self._ledger.evaluate(PHASE, [again])
        is_better = row.status is Status.OK and self._loss(row) < self._loss(best)
        return row if is_better else best

    def _loss(self, evaluation: Evaluation) -> float:
        score = evaluation.score
        return float("inf") if score is None else self._objective.key(score)


def _forms(finalist: Finalist) -> list[Finalist]:
    """Return a rule as it is, and under each decay if it has none in front."""
    rule = Rule.parse(finalist.recipe)
    first, *rest = rule.operators
    if first.name == "mul" and rest[0].feed == "time":
        return [finalist]
    decayed = (str(Rule.parse(f"{decay}*({rule})")) for decay in DECAYS)
    return [finalist, *(replace(finalist, recipe=text) for text in decayed)]
