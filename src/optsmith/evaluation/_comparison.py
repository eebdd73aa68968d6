"""Comparison of recipes: the end of a search, and the result of `evaluate`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from optsmith._errors import OptsmithError
from optsmith.evaluation._evaluation import Evaluation, Status, mean_and_spread
from optsmith.optim import is_baseline
from optsmith.task import Metric, Objective


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

    def verdict(self, rule: str) -> str:
        """Return a sentence on whether a rule beats the best baseline.

        A difference is claimed from two standard errors on, and never with a single seed, which
        gives no estimate of the noise.
        """
        mine = next((e for e in self.rules if e.recipe == rule), None)
        best = next((e for e in self.baselines if e.status is Status.OK), None)
        if mine is None or best is None or best.score is None:
            return ""
        if mine.score is None:
            return f"{rule} has no score: it {mine.status.value.replace('_', ' ')}."
        against = (
            f"{self.objective.name} {self.objective.brief(mine.score)} against"
            f" {self.objective.brief(best.score)}"
        )
        errors = standard_errors(mine, best)
        if math.isnan(errors):
            return (
                f"{rule} has {against} of the best baseline, {best.recipe}; one seed says nothing"
                " about the noise, so it is not known which is better."
            )
        if errors < 2:
            word, by = "does as well as", "within the noise"
        else:
            word = "beats" if self.objective.better(mine.score, best.score) else "is worse than"
            gap = abs(mine.score - best.score)
            by = f"by {gap / abs(best.score):.1%}" if best.score else "clearly"
        seeds = f"{len(mine.scores)} seeds each"
        noise = f"{errors:.1f} standard errors" if errors < math.inf else "no spread"
        opponent = f"the best baseline, {best.recipe}"
        return f"{rule} {word} {opponent}, {by}: {against} ({noise}, {seeds})."

    def table(self) -> Any:
        """Return a pandas DataFrame, one row per recipe."""
        return frame([_row(e) for e in self.rows])


def standard_errors(one: Evaluation, other: Evaluation) -> float:
    """Return the difference of two scores in units of its standard error.

    NaN if a score is missing or has fewer than two seeds: then the noise is unknown.
    """
    if one.score is None or other.score is None or min(len(one.scores), len(other.scores)) < 2:
        return math.nan
    error = math.hypot(*(e.spread / math.sqrt(len(e.scores)) for e in (one, other)))
    gap = abs(one.score - other.score)
    if error == 0:
        return math.inf if gap else 0.0
    return gap / error


def _row(evaluation: Evaluation) -> dict[str, Any]:
    row = {
        "recipe": evaluation.recipe,
        "status": evaluation.status.value,
        "score": evaluation.score,
        "spread": evaluation.spread,
        "seeds": len(evaluation.scores),
        "lr": evaluation.lr,
        "at_edge": evaluation.at_edge,
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
