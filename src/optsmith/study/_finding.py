"""A rule that a search found, with the one learning rate to use it with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optsmith.evaluation import Evaluation
from optsmith.optim import Parameters, RuleOptimizer
from optsmith.rules import Rule


@dataclass(frozen=True)
class Finding:
    """An accepted rule: how it scored in the search, and in the final evaluation.

    Attributes:
        search: Its evaluation during the search, usually on shorter runs.
        held_out: Its final evaluation: full length, on seeds and data that the search did not use.
            None before the end of the search, and for rules that were not proposed.
    """

    search: Evaluation
    held_out: Evaluation | None = None

    @property
    def recipe(self) -> str:
        """Text of the rule."""
        return self.search.recipe

    @property
    def rule(self) -> Rule:
        """The rule."""
        return self.search.rule

    @property
    def tuned(self) -> Evaluation:
        """The evaluation that tuned the learning rate: the final one, if it found a rate."""
        final = self.held_out
        return self.search if final is None or final.lr is None else final

    @property
    def lr(self) -> float | None:
        """The learning rate, as tables, reports and `optimizer` use it."""
        return self.tuned.lr

    @property
    def search_score(self) -> float | None:
        """Score during the search, which ranked the rule."""
        return self.search.score

    @property
    def held_out_score(self) -> float | None:
        """Score of the final evaluation; None without one."""
        return None if self.held_out is None else self.held_out.score

    def optimizer(
        self, params: Parameters, total_steps: int | None = None, **settings: Any
    ) -> RuleOptimizer:
        """Return the rule as an optimizer with its learning rate; see `Evaluation.optimizer`."""
        return self.tuned.optimizer(params, total_steps, **settings)
