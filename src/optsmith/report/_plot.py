"""Figures of studies with matplotlib, for papers and notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from optsmith._errors import OptsmithError, StudyError
from optsmith.evaluation import Evaluation, named_or, printed_in, shown
from optsmith.report._answer import opponent_of
from optsmith.report._figure import Series
from optsmith.report._rows import BEST_RULE
from optsmith.report._studies import AXES, bands, goal_of
from optsmith.report._values import finite
from optsmith.study import Study, StudyComparison, compare_studies

COLOURS = ("#d9622b", "#3b8fc4", "#2ba084", "#c2679c", "#a98b1e", "#7a80d1", "#8a8378")


def _figure(panels: int) -> tuple[Any, Any]:
    """Return a new figure with panels side by side.

    Raises:
        OptsmithError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib import pyplot
    except ImportError:
        raise OptsmithError("a plot needs matplotlib: pip install 'optsmith[plot]'") from None
    figure, axes = pyplot.subplots(
        1, panels, figsize=(5.2 * panels, 3.6), layout="constrained", squeeze=False
    )
    if "inline" in mpl.get_backend():
        pyplot.close(figure)  # else a notebook shows it twice: at the end of the cell, and returned
    for axis in axes[0]:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes[0]


def plot_study(study: Study) -> Any:
    """Return a figure: learning curves of winner and best opponent, and differences by seed.

    Before the final evaluation, it shows the best search score so far.

    Raises:
        OptsmithError: matplotlib is not installed, or the study has nothing to plot yet.
    """
    if not study.best(1):
        raise StudyError(f"the study {study.name} has no accepted rule to plot yet")
    rows = {e.recipe: e for e in study.final.rows}
    mine = rows.get(study.best().recipe)
    if mine is None:
        return plot_studies(compare_studies([study]))
    other = rows.get(opponent_of(study.final, study.claim))
    seeds = [] if other is None else _differences(mine, other, study.objective.unit)
    figure, axes = _figure(2 if seeds else 1)
    for i, e in enumerate(filter(None, (mine, other))):
        points = [(a, b) for a, b in e.curve if finite(b) is not None]
        axes[0].plot(
            *zip(*points, strict=True), color=COLOURS[i], label=named_or(BEST_RULE, shown(e.recipe))
        )
    axes[0].set(xlabel="step", ylabel="signal, mean over the seeds")
    _log_if_wide(axes[0], [b for e in filter(None, (mine, other)) for _, b in e.curve])
    axes[0].legend(frameon=False)
    if seeds and other is not None:
        _draw_differences(axes[1], study, seeds, other)
    return figure


def plot_studies(comparison: StudyComparison) -> Any:
    """Return a figure of the best search score so far against cost, with bands over seeds.

    Raises:
        OptsmithError: matplotlib is not installed, or no study has a score yet.
    """
    if not bands(comparison, "runs"):
        raise StudyError("the studies have no accepted rule to plot yet")
    figure, axes = _figure(len(AXES))
    for axis, (by, title) in zip(axes, AXES.items(), strict=True):
        series = bands(comparison, by)
        for i, s in enumerate(series):
            _draw_band(axis, s, COLOURS[i % len(COLOURS)])
        axis.set(xlabel=title, ylabel=f"best {goal_of(comparison).axis()}")
        _log_if_wide(axis, [value for s in series for _, value in s.points])
    axes[0].legend(frameon=False)
    return figure


def _draw_band(axis: Any, series: Series, colour: str) -> None:
    x, middle = zip(*series.points, strict=True)
    axis.step(x, middle, where="post", color=colour, label=series.name)
    if series.low:
        low, high = ([value for _, value in side] for side in (series.low, series.high))
        axis.fill_between(x, low, high, step="post", color=colour, alpha=0.18, linewidth=0)


def _differences(mine: Evaluation, other: Evaluation, unit: str) -> list[float]:
    """Return the change on each seed that both have, where both are finite.

    It is in percent, or in points if the scores are fractions.
    """
    its = dict(zip(other.seeds, other.scores, strict=False))
    pairs = [(a, its[s]) for s, a in zip(mine.seeds, mine.scores, strict=False) if s in its]
    known = [(a, b) for a, b in pairs if b and finite(a) is not None and finite(b)]
    return [printed_in(unit, b)[0] * (a / b - 1) for a, b in known]


def _draw_differences(axis: Any, study: Study, seeds: list[float], other: Evaluation) -> None:
    order = np.argsort(seeds)
    axis.axhline(0, color=COLOURS[1], linewidth=1)
    axis.plot(range(1, len(seeds) + 1), np.asarray(seeds)[order], "o", color=COLOURS[0])
    paired, unit = None if study.claim is None else study.claim.paired, study.objective.unit
    if paired is not None and finite(paired.low) is not None and finite(paired.high) is not None:
        factor, _ = printed_in(unit, other.score)
        low, high = factor * paired.low, factor * paired.high
        axis.axhspan(low, high, color=COLOURS[0], alpha=0.15, linewidth=0)
        axis.axhline(factor * paired.change, color=COLOURS[0], linestyle="--", linewidth=1)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.set(
        title=f"{study.objective.reported.name} against {other.recipe}",
        xlabel="seeds, in the order of their difference",
        ylabel=f"change,{printed_in(unit, other.score)[1]}",
    )


def _log_if_wide(axis: Any, values: list[float]) -> None:
    numbers = [value for value in values if finite(value) is not None]
    if numbers and min(numbers) > 0 and max(numbers) / min(numbers) >= 8:
        axis.set_yscale("log")
