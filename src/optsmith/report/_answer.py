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


def paired_data(paired: Paired, direction: Direction) -> dict[str, Any]:
    """Return a paired comparison as plain data.

    `better` says whether the first recipe is better; None if that is not decided.
    """
    data: dict[str, Any] = plain({**asdict(paired), "better": paired.better(direction)})
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
    equally, direction = claim.equally_tuned, objective.direction
    data: dict[str, Any] = plain(
        {
            **asdict(claim),
            "shown": shown(claim.rule),
            "paired": paired_data(claim.paired, direction),
            "metrics": {
                name: paired_data(paired, metrics.get(name, Metric(name)).direction)
                for name, paired in claim.metrics.items()
            },
            "checks": [
                {**asdict(check), "paired": paired_data(check.paired, direction)}
                for check in claim.checks
            ],
            "contradicted": claim.contradicted(objective, metrics),
            "equally_tuned": None if equally is None else paired_data(equally, direction),
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


def changes(comparison: Comparison, claim: Claim | None = None) -> dict[str, Paired]:
    """Return each other recipe against the best opponent, by recipe; empty without an opponent."""
    opponent = opponent_of(comparison, claim)
    found = comparison.against(opponent) if opponent else {}
    if claim is not None and claim.opponent:
        found[claim.rule] = claim.paired  # corrected for its looks
    return found


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
