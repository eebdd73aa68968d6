"""The answer of a study as plain data: claim, recommendation, and opponents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optsmith.evaluation import Claim, Comparison, Paired, shown
from optsmith.optim import Baseline
from optsmith.study import Finding, Study
from optsmith.task import Direction, Metric, Objective


def plain(value: Any) -> Any:
    """Return data without numbers that JSON does not have; they are None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def paired_data(
    paired: Paired, direction: Direction, reference: float | None = None
) -> dict[str, Any]:
    """Return a paired comparison as plain data.

    `better` says whether the first recipe is better; None if that is not decided. `reference` is
    what the change is relative to; None if it is not known.
    """
    more = {"better": paired.better(direction), "reference": reference}
    data: dict[str, Any] = plain({**asdict(paired), **more})
    return data


def claim_data(
    claim: Claim | None, objective: Objective, metrics: Mapping[str, Metric]
) -> dict[str, Any] | None:
    """Return a claim as plain data; None without one.

    `contradicted` says whether a held-out metric contradicts the objective.

    Args:
        claim: The claim.
        objective: The objective of the task.
        metrics: Declared metrics of the task, by name.
    """
    if claim is None:
        return None

    def against(paired: Paired, recipe: str) -> dict[str, Any]:
        # Under other settings, and after more tuning, the reference is about the same.
        mean = claim.rule_score if recipe == claim.rule else claim.opponent_score
        return paired_data(paired, objective.direction, mean)

    def measured(name: str, paired: Paired) -> dict[str, Any]:
        mean = claim.metric_means.get(name, (None, None))[1]
        return paired_data(paired, metrics.get(name, Metric(name)).direction, mean)

    equally, checks, parts = claim.equally_tuned, claim.checks, claim.ablation
    data: dict[str, Any] = plain(
        {
            **asdict(claim),
            "shown": shown(claim.rule),
            "paired": against(claim.paired, claim.opponent),
            "metrics": {name: measured(name, paired) for name, paired in claim.metrics.items()},
            "checks": [{**asdict(c), "paired": against(c.paired, c.against)} for c in checks],
            "ablation": [{**asdict(p), "paired": against(p.paired, claim.rule)} for p in parts],
            "contradicted": claim.contradicted(objective, metrics),
            "equally_tuned": None if equally is None else against(equally, claim.opponent),
        }
    )
    return data


def opponent_of(comparison: Comparison, claim: Claim | None = None) -> str:
    """Return the opponent that all recipes are compared with; empty if there is none.

    It is the claim's, which selection seeds have chosen, or else the best baseline.
    """
    if claim is not None and claim.opponent:
        return claim.opponent
    best = comparison.best_baseline
    return best.recipe if best else ""


def changes(comparison: Comparison, claim: Claim | None = None) -> dict[str, dict[str, Any]]:
    """Return each other recipe against the best opponent as plain data, by recipe.

    It is empty without an opponent.
    """
    opponent = opponent_of(comparison, claim)
    found = comparison.against(opponent) if opponent else {}
    if claim is not None and claim.opponent:
        found[claim.rule] = claim.paired  # corrected for its looks
    direction, mean = comparison.objective.direction, comparison.score_of(opponent)
    return {recipe: paired_data(paired, direction, mean) for recipe, paired in found.items()}


def answer_data(study: Study) -> dict[str, Any]:
    """Return verdict, claim, recommendation and the opponents that left the race."""
    is_known = study.best(1) or study.final.best_baseline
    return {
        "verdict": study.verdict,
        "claim": claim_data(study.claim, study.objective, study.metrics),
        "recommended": _recommended(study.recommended) if is_known else None,
        "raced": [asdict(left) for left in study.raced],
    }


def _recommended(finding: Finding) -> dict[str, Any]:
    schedule = "" if finding.is_rule else Baseline.parse(finding.recipe).schedule
    kind = "rule" if finding.is_rule else "baseline"
    return {"recipe": finding.recipe, "kind": kind, "schedule": schedule, "lr": finding.lr}
