"""The best rule so far against the best opponent so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from optsmith.evaluation import Evaluation
from optsmith.optim import is_baseline
from optsmith.rules import Rule, rounded
from optsmith.task import Objective

DIGITS = 3
"""Digits of the numbers of a rule in a line of progress."""


@lru_cache(maxsize=8)
def brief_recipe(recipe: str) -> str:
    """Return a recipe with round numbers, for a line of progress."""
    return recipe if is_baseline(recipe) else str(rounded(Rule.parse(recipe), DIGITS))


@dataclass
class Standing:
    """The best rule and the best opponent among evaluations that can be compared.

    Attributes:
        objective: The objective of the search.
        rule: The best rule; None if there is none yet.
        opponent: The best opponent; None if there is none yet.
    """

    objective: Objective
    rule: Evaluation | None = None
    opponent: Evaluation | None = None

    def add(self, evaluation: Evaluation) -> None:
        """Take an evaluation into account."""
        if evaluation.score is None:
            return
        if is_baseline(evaluation.recipe):
            self.opponent = self._better(evaluation, self.opponent)
        else:
            self.rule = self._better(evaluation, self.rule)

    @property
    def complete(self) -> bool:
        """Whether both are known."""
        return self.rule is not None and self.opponent is not None

    def lead(self) -> str:
        """Return how much better the rule is: "3.6 % better"; empty if that is not known.

        Scores that are fractions are compared in points of a percent.
        """
        rule, opponent = self.rule, self.opponent
        if rule is None or opponent is None or rule.steps != opponent.steps:
            return ""  # scores of runs of different lengths cannot be compared
        mine, other = rule.score or 0.0, opponent.score or 0.0
        if mine == other:
            return "equal"
        word = "better" if self.objective.better(mine, other) else "worse"
        if self.objective.unit == "%":
            return f"{100 * abs(mine - other):.2g} points {word}"
        return f"{100 * abs(mine - other) / abs(other):.1f} % {word}" if other else word

    def text(self) -> str:
        """Return both in one line."""
        parts = [
            f"{name} {self.score(evaluation)} ({brief_recipe(evaluation.recipe)})"
            for name, evaluation in (("best rule", self.rule), ("best opponent", self.opponent))
            if evaluation is not None
        ]
        lead = self.lead()
        return ", ".join(parts) + (f": {lead}" if lead else "")

    def score(self, evaluation: Evaluation) -> str:
        """Return a score as text."""
        return self.objective.brief(evaluation.score or 0.0)

    def _better(self, one: Evaluation, other: Evaluation | None) -> Evaluation:
        if other is None or other.score is None or one.score is None:
            return one
        return one if self.objective.better(one.score, other.score) else other
