"""Tuning of all constants of a rule, generation by generation, in evaluations of a study."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optsmith.rules import Rule
from optsmith.searchers import Proposal, Tuner, folded
from optsmith.study._ledger import Entry
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Objective


@dataclass(frozen=True, slots=True)
class ConstantTuning:
    """Tunes the constants of rules by an evolution strategy.

    Attributes:
        ledger: Evaluates rules.
        objective: The objective of the task.
        phase: What the training steps are counted for.
        stage: Stage of the evaluations.
        first_block: First block of seeds; each generation has the next one.
        population: Rules per generation.
    """

    ledger: TimedLedger
    objective: Objective
    phase: str
    stage: str
    first_block: int
    population: int

    def tune(self, rule: Rule, lr: float, seed: int, generations: int) -> Proposal:
        """Return the rule with tuned constants, and its learning rate.

        Args:
            rule: The rule, with a number for all that is tuned; see `tunable`.
            lr: Its learning rate.
            seed: Seed of all draws.
            generations: Number of generations.
        """
        tuner = Tuner(rule, seed, self.population)
        for block in range(self.first_block, self.first_block + generations):
            entries = [Entry(self.stage, str(r), block=block, lr=lr) for r in tuner.ask()]
            found = self.ledger.evaluate(self.phase, entries)
            tuner.tell([self._loss(e.score) for e in found])
        return folded(tuner.best, lr)

    def _loss(self, score: float | None) -> float:
        return math.inf if score is None else self.objective.key(score)
