"""The best opponent, equally tuned: all its constants, with as much training as the search had."""

from __future__ import annotations

from dataclasses import replace

from optsmith.evaluation import Claim, Evaluation, Status, compare_evaluations
from optsmith.optim import Baseline
from optsmith.rules import Rule
from optsmith.searchers import Proposal, tunable
from optsmith.study._constants import ConstantTuning
from optsmith.study._context import REPORT, SEARCH, SELECTION
from optsmith.study._ledger import Entry
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Objective, Preset

PHASE = "equal tuning"

FIRST_BLOCK = 100_000
"""First block of seeds; those of searches and refinements come before."""

POPULATION = 16


class EqualTuning:
    """Tunes the constants of an opponent as a search tunes those of rules.

    Args:
        ledger: Evaluates recipes.
        terms: Protocol and settings of the comparison.
        objective: The objective of the task.
    """

    def __init__(self, ledger: TimedLedger, terms: Preset, objective: Objective) -> None:
        self._ledger, self._terms, self._objective = ledger, terms, objective

    def extend(self, claim: Claim, rule: Evaluation, seed: int) -> Claim:
        """Return a claim with the comparison against the opponent, equally tuned.

        An opponent that is not a rule, such as Adafactor, cannot be tuned this way.

        Args:
            claim: The claim.
            rule: Final row of the best rule.
            seed: Seed of the search.
        """
        form = Baseline.parse(claim.opponent).as_rule()
        if form is None or claim.opponent_lr is None:
            return claim
        lr = claim.opponent_lr * form.scale
        tuned = self._tuned(tunable(form.rule, claim.opponent), lr, seed)
        around = Entry(SELECTION, str(tuned.rule), around=tuned.lr)
        (chosen,) = self._ledger.evaluate(PHASE, [around])
        if chosen.status is not Status.OK:
            return claim
        (row,) = self._ledger.evaluate(PHASE, [Entry(REPORT, chosen.recipe, lr=chosen.lr)])
        paired = compare_evaluations(rule, row, self._objective)
        return replace(claim, equally_tuned=paired, equally_tuned_opponent=claim.opponent)

    def _tuned(self, rule: Rule, lr: float, seed: int) -> Proposal:
        protocol = self._terms.protocol
        per_generation = POPULATION * protocol.score_seeds * protocol.steps
        generations = max(1, round(self._ledger.trained.get(SEARCH, 0) / per_generation))
        tuning = ConstantTuning(
            self._ledger, self._objective, PHASE, SEARCH, FIRST_BLOCK, POPULATION
        )
        return tuning.tune(rule, lr, seed, generations)
