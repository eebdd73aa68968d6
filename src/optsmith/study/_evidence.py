"""The claim of a study, and what is measured for it beside the comparison itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from optsmith.evaluation import (
    Check,
    Claim,
    Evaluation,
    SpeedUp,
    compare_evaluations,
    mean_and_spread,
    speed_up,
)
from optsmith.rules import Rule
from optsmith.study._context import REPORT
from optsmith.study._known import known_name
from optsmith.study._ledger import Entry
from optsmith.study._timed_ledger import CHECKS, SPEED_UP, TimedLedger
from optsmith.task import Metric, Objective, Preset


class Evidence:
    """Makes the claim about the best rule against the best opponent.

    Args:
        ledger: Evaluates recipes.
        terms: Protocol and settings of the comparison.
        objective: The objective of the task.
        metrics: Metrics of the task, by name.
    """

    def __init__(
        self,
        ledger: TimedLedger,
        terms: Preset,
        objective: Objective,
        metrics: Mapping[str, Metric],
    ) -> None:
        self.ledger, self.terms, self.objective, self.metrics = ledger, terms, objective, metrics

    def claim(
        self, rule: Evaluation, opponent: Evaluation, *, most: int, looks: int, stopped: str
    ) -> Claim:
        """Return the claim.

        Args:
            rule: Final row of the best rule.
            opponent: Final row of the best opponent.
            most: How many times the comparison could be looked at.
            looks: How many times it was.
            stopped: Why an undecided comparison got no more seeds.
        """
        paired = compare_evaluations(rule, opponent, self.objective, most)
        stage = self.terms.protocol.selection_stage(self.terms.contest.selection_seeds)
        decided = paired.better(self.objective.direction)
        recommended = min((opponent, rule), key=self._preference)  # of equals, what is known
        if decided is not None:
            recommended = rule if decided else opponent
        metrics = {
            name: self.metrics.get(name) or Metric(name)
            for name in rule.metrics
            if name in opponent.metrics
        }
        return Claim(
            rule=rule.recipe,
            lr=rule.lr or math.nan,
            opponent=opponent.recipe,
            opponent_lr=opponent.lr,
            paired=paired,
            metrics={
                name: compare_evaluations(rule, opponent, metric, most)
                for name, metric in metrics.items()
            },
            looks=looks,
            stopped=stopped,
            speed_up=None if decided is False else self._speed_up(rule, opponent),
            step_ratio=_ratio(rule.ms_per_step, opponent.ms_per_step),
            checks=self._checks(rule, opponent),
            known=known_name(Rule.parse(rule.recipe)),
            recommended=recommended.recipe,
            selection_seeds=(*stage.lr_seeds, *stage.seeds),
            report_seeds=rule.seeds,
            trained=dict(self.ledger.trained),
            rule_score=math.nan if rule.score is None else rule.score,
            opponent_score=math.nan if opponent.score is None else opponent.score,
            metric_means={
                name: (
                    mean_and_spread(rule.metrics[name])[0],
                    mean_and_spread(opponent.metrics[name])[0],
                )
                for name in metrics
            },
        )

    def _preference(self, row: Evaluation) -> float:
        """Return the sort key of the score on report seeds, which have chosen nothing."""
        score = math.nan if row.score is None else row.score
        return self.objective.key(score) if math.isfinite(score) else math.inf

    def _speed_up(self, rule: Evaluation, opponent: Evaluation) -> SpeedUp | None:
        horizons = self.terms.contest.horizons
        entries = [Entry(REPORT, rule.recipe, share, lr=rule.lr) for share in horizons]
        if not entries or not self.ledger.allows(SPEED_UP, entries):
            return None
        found = self.ledger.evaluate(SPEED_UP, entries)
        first = self.ledger.block
        scores = {share: e.scores for share, e in zip(horizons, found, strict=True) if e.scores}
        return speed_up(
            {**scores, 1.0: rule.scores[:first]}, opponent.scores[:first], self.objective
        )

    def _checks(self, rule: Evaluation, opponent: Evaluation) -> tuple[Check, ...]:
        if not self.terms.contest.checks or rule.lr is None:
            return ()
        rates = {"half the learning rate": rule.lr / 2, "twice the learning rate": rule.lr * 2}
        entries = [Entry(REPORT, rule.recipe, lr=lr) for lr in rates.values()]
        twice = [Entry(REPORT, row.recipe, 2.0, lr=row.lr) for row in (rule, opponent)]
        if not self.ledger.allows(CHECKS, [*entries, *twice]):
            return ()
        half, double, longer, opponents_longer = self.ledger.evaluate(CHECKS, [*entries, *twice])
        checks = [
            Check(
                setting=name,
                against=rule.recipe,
                paired=compare_evaluations(found, rule, self.objective),
            )
            for name, found in zip(rates, (half, double), strict=True)
        ]
        paired = compare_evaluations(longer, opponents_longer, self.objective)
        return (*checks, Check(setting="twice the steps", against=opponent.recipe, paired=paired))


def _ratio(one: float, other: float) -> float | None:
    return one / other if one > 0 and other > 0 else None
