"""Comparison of recipes: the end of a search, and the result of `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from optsmith._errors import OptsmithError
from optsmith.evaluation._evaluation import Evaluation, Status, mean_and_spread
from optsmith.evaluation._paired import (
    Paired,
    compare_evaluations,
    compare_paired,
    on_common_seeds,
)
from optsmith.evaluation._sentences import Measured, compared, diverged
from optsmith.optim import is_baseline
from optsmith.task import Metric, Objective

_ENDED = {
    Status.EARLY_STOPPED: "was stopped early",
    Status.LOST: "was lost, because the machine failed",
    Status.TIMED_OUT: "timed out",
}
"""How an evaluation without scores ended, where the status is not the word for it."""


@dataclass(frozen=True)
class Comparison:
    """Evaluations by the same stage, best first; evaluations without a score are last.

    Attributes:
        objective: The objective of the task.
        rows: The evaluations.
        metrics: Declared metrics of the task, by name.
    """

    objective: Objective
    rows: tuple[Evaluation, ...]
    metrics: Mapping[str, Metric] = field(default_factory=dict)

    def __post_init__(self) -> None:
        key = self.objective.key
        ordered = sorted(self.rows, key=lambda e: math.inf if e.score is None else key(e.score))
        object.__setattr__(self, "rows", tuple(ordered))

    @property
    def rules(self) -> list[Evaluation]:
        """The evaluations of rules."""
        return [e for e in self.rows if not is_baseline(e.recipe)]

    @property
    def baselines(self) -> list[Evaluation]:
        """The evaluations of baselines."""
        return [e for e in self.rows if is_baseline(e.recipe)]

    def metric(self, name: str) -> Metric:
        """Return a metric by name; a metric that is not declared has no unit."""
        return self.metrics.get(name) or Metric(name)

    @property
    def best_baseline(self) -> Evaluation | None:
        """The baseline with the best score."""
        return next((e for e in self.baselines if e.status is Status.OK), None)

    def score_of(self, recipe: str) -> float | None:
        """Return the score of a recipe; None if it has none."""
        return next((e.score for e in self.rows if e.recipe == recipe), None)

    def against(self, opponent: str) -> dict[str, Paired]:
        """Return how every other row compares with an opponent in the objective, by recipe.

        Rows that have no seed in common with the opponent are left out.
        """
        other = next((e for e in self.rows if e.recipe == opponent), None)
        if other is None:
            return {}
        rows = (e for e in self.rows if e is not other)
        found = {e.recipe: compare_evaluations(e, other, self.objective) for e in rows}
        return {recipe: paired for recipe, paired in found.items() if paired.seeds}

    def verdict(self, rule: str, name: str | None = None) -> str:
        """Return sentences on whether a rule beats the best baseline, on the seeds of both.

        They are empty without that rule or without a baseline with a score. The baseline is the
        best of several on the same seeds, which favours it; the p-value is corrected for that.

        Args:
            rule: Text of the rule.
            name: The same in another form, to be shown.
        """
        mine = next((e for e in self.rules if e.recipe == rule), None)
        best = self.best_baseline
        if mine is None or best is None:
            return ""
        name = name or rule
        if not mine.scores:
            how = _ENDED.get(mine.status, mine.status.value)
            return f"{name} has no score: it {how}."
        score = self._measured(mine, best, self.objective)
        if score.better is False:
            p = min(1.0, score.paired.p * len(self.baselines))
            score = replace(score, paired=replace(score.paired, p=p))
        metrics = [self._measured(mine, best, self.metric(metric)) for metric in mine.metrics]
        first = compared(name, best.recipe, score, metrics)
        return " ".join([first, *diverged(name, best.recipe, score.paired)])

    def _measured(
        self, one: Evaluation, other: Evaluation, quantity: Objective | Metric
    ) -> Measured:
        mine, its = on_common_seeds(one, other, quantity)
        paired = compare_paired(mine, its, direction=quantity.direction)
        return Measured(quantity, paired, mean_and_spread(mine)[0], mean_and_spread(its)[0])

    def table(self) -> Any:
        """Return a pandas DataFrame, one row per recipe.

        The columns `change`, `change_low` and `change_high` compare the score with that of the best
        baseline, by seed: -0.03 is 3 % less, or 3 points less for fractions such as accuracies.
        """
        best, unit = self.best_baseline, self.objective.unit
        found = self.against(best.recipe) if best else {}
        mean = best.score if best else None
        against = {recipe: paired.in_unit(unit, mean) for recipe, paired in found.items()}
        return frame([_row(e, against.get(e.recipe)) for e in self.rows])

    def _repr_html_(self) -> str:
        from optsmith.report import comparison_html  # late, because report depends on this package

        return comparison_html(self)


def _row(evaluation: Evaluation, paired: Paired | None) -> dict[str, Any]:
    row = {
        "recipe": evaluation.recipe,
        "status": evaluation.status.value,
        "score": evaluation.score,
        "spread": evaluation.spread,
        "seeds": len(evaluation.scores),
        "lr": evaluation.lr,
        "at_edge": evaluation.at_edge,
        "change": paired.change if paired else None,
        "change_low": paired.low if paired else None,
        "change_high": paired.high if paired else None,
    }
    for name, values in evaluation.metrics.items():
        row[name], row[f"{name} spread"] = mean_and_spread(values)
    row["ms_per_step"] = evaluation.ms_per_step
    row["state_bytes"] = evaluation.state_bytes
    return row


def frame(rows: list[dict[str, Any]]) -> Any:
    """Return rows as a pandas DataFrame.

    Raises:
        OptsmithError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise OptsmithError("a table needs pandas: pip install 'optsmith[table]'") from None
    return pd.DataFrame(rows)
