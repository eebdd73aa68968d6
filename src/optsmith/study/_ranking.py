"""Ranking of the evaluations of a search."""

from __future__ import annotations

from collections.abc import Iterable

from optsmith.evaluation import Evaluation, Status
from optsmith.task import Objective


def ranked(
    entries: Iterable[tuple[float, float | None, Evaluation]], objective: Objective
) -> list[Evaluation]:
    """Return the accepted evaluations, best first; of equal scores, the earlier one first.

    Only evaluations at the highest fidelity are ranked, because scores of runs of different lengths
    cannot be compared. A rule appears once: with several blocks of seeds, it is ranked by the mean;
    with several fixed learning rates, by the best of them.

    Args:
        entries: Fidelity, fixed learning rate and evaluation of each candidate, in order.
        objective: The objective of the search.
    """
    accepted = [entry for entry in entries if entry[2].status is Status.OK]
    highest = max((fidelity for fidelity, _, _ in accepted), default=1.0)
    alike: dict[tuple[str, float | None], list[Evaluation]] = {}
    for fidelity, lr, evaluation in accepted:
        if fidelity == highest:
            alike.setdefault((evaluation.recipe, lr), []).append(evaluation)
    by_score = sorted(alike.values(), key=lambda group: objective.key(_mean(group)))
    best: dict[str, Evaluation] = {}
    for group in by_score:
        best.setdefault(group[0].recipe, group[0])
    return list(best.values())


def _mean(evaluations: list[Evaluation]) -> float:
    scores = [e.score for e in evaluations if e.score is not None]
    return sum(scores) / len(scores) if scores else float("nan")
