"""The best opponent, equally tuned: all its constants, with as much training as the search had."""

from __future__ import annotations

from dataclasses import replace

from optsmith.evaluation import Claim, Evaluation, Status
from optsmith.optim import Baseline
from optsmith.rules import Rule
from optsmith.searchers import Proposal, tunable
from optsmith.study._constants import ConstantTuning
from optsmith.study._context import REPORT, SEARCH, SELECTION
from optsmith.study._decide import decide
from optsmith.study._ledger import Entry
from optsmith.study._stages import looks_of
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Objective, Preset

PHASE = "equal tuning"

FIRST_BLOCK = 100_000
"""First block of seeds; those of searches and refinements come before."""

POPULATION = 16

SEED = 0
"""Seed of the draws: an opponent is tuned alike, whatever the seed of the search."""

ENOUGH = 0.8
"""Smallest share of the search's training steps that counts as equal, if time runs out."""


class EqualTuning:
    """Tunes the constants of an opponent as a search tunes those of rules.

    Args:
        ledger: Evaluates recipes.
        terms: Protocol and settings of the comparison.
        objective: The objective of the task.
    """

    def __init__(self, ledger: TimedLedger, terms: Preset, objective: Objective) -> None:
        self._ledger, self._terms, self._objective = ledger, terms, objective

    def extend(self, claim: Claim, rule: Evaluation) -> Claim:
        """Return a claim with the comparison against the opponent, equally tuned.

        An opponent that is not a rule, such as Adafactor, cannot be tuned this way, and one for
        which there is too little time is not.

        Args:
            claim: The claim.
            rule: Final row of the best rule.
        """
        form = Baseline.parse(claim.opponent).as_rule()
        if form is None or claim.opponent_lr is None:
            return claim
        lr = claim.opponent_lr * form.scale
        start = tunable(form.rule, claim.opponent)
        generations = self._generations(start, lr)
        if not generations:
            return claim
        tuned = self._tuned(start, lr, generations)
        around = Entry(SELECTION, str(tuned.rule), around=tuned.lr)
        (chosen,) = self._ledger.evaluate(PHASE, [around])
        if chosen.status is not Status.OK:
            return claim
        (row,) = self._ledger.evaluate(PHASE, [Entry(REPORT, chosen.recipe, lr=chosen.lr)])
        looks = looks_of(self._terms)
        found = decide(self._ledger, PHASE, looks, self._objective, rule, row)
        return replace(claim, equally_tuned=found.paired, equally_tuned_opponent=claim.opponent)

    def _generations(self, rule: Rule, lr: float) -> int:
        """Return how many generations there are: as many steps as the search took, or nearly so.

        0 if there is not enough time for that; decided once.
        """
        protocol = self._terms.protocol
        per_generation = POPULATION * protocol.score_seeds * protocol.steps
        wanted = max(1, round(self._ledger.trained.get(SEARCH, 0) / per_generation))
        if self._ledger.until is None:
            return wanted

        def affordable() -> int:
            rates = (lr * (1 + i / 1000) for i in range(POPULATION))
            one = [Entry(SEARCH, str(rule), block=FIRST_BLOCK, lr=rate) for rate in rates]
            last = [Entry(SELECTION, str(rule), around=lr), Entry(REPORT, str(rule), lr=lr)]
            left = self._ledger.seconds_left() - self._ledger.seconds(last)
            fitting = int(left / max(self._ledger.seconds(one), 1e-9))
            return min(wanted, fitting) if fitting >= ENOUGH * wanted else 0

        return int(self._ledger.clock.decide(f"generations of {PHASE}", affordable))

    def _tuned(self, rule: Rule, lr: float, generations: int) -> Proposal:
        tuning = ConstantTuning(
            self._ledger, self._objective, PHASE, SEARCH, FIRST_BLOCK, POPULATION
        )
        return tuning.tune(rule, lr, SEED, generations)
