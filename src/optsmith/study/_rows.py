"""Rows of the final comparison, put together from tuning and blocks of report seeds."""

from __future__ import annotations

import math
from dataclasses import replace

from optsmith.evaluation import Evaluation


def merged(tuned: Evaluation, report: Evaluation) -> Evaluation:
    """Return the final row of a recipe: how it was tuned, and its report."""
    return replace(
        report,
        grid=tuned.grid,
        at_edge=tuned.at_edge,
        selection=tuned.score,
        trained=tuned.trained + report.trained,
        seconds=tuned.seconds + report.seconds,
    )


def longer(row: Evaluation, block: Evaluation) -> Evaluation:
    """Return a row with the scores of another block of seeds; its curve is the mean of both."""
    scores = (*row.scores, *block.scores)
    score = sum(scores) / len(scores) if scores else math.nan
    return replace(
        row,
        score=score if math.isfinite(score) else None,
        status=row.status if math.isfinite(score) else block.status,
        seeds=(*row.seeds, *block.seeds),
        scores=scores,
        metrics={
            name: (*values, *block.metrics.get(name, (math.nan,) * len(block.seeds)))
            for name, values in row.metrics.items()
        },
        curve=_mean_curve(row, block),
        trained=row.trained + block.trained,
        seconds=row.seconds + block.seconds,
    )


def _mean_curve(row: Evaluation, block: Evaluation) -> tuple[tuple[int, float], ...]:
    """Return the mean of two curves by their numbers of seeds, at the steps that both have."""
    values, mine, its = dict(block.curve), len(row.seeds), len(block.seeds)
    return tuple(
        (step, (mine * value + its * values[step]) / (mine + its))
        for step, value in row.curve
        if step in values
    )
