"""The opponents as rules, from which a search starts."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.optim import Baseline
from optsmith.searchers import Start
from optsmith.study._race import Finalist, Raced


def starts_of(finalists: Sequence[Finalist], raced: Sequence[Raced]) -> list[Start]:
    """Return the opponents that can be written as rules, with their learning rates.

    Those that were evaluated as candidates of the search are have scores.

    Args:
        finalists: The opponents that reach the comparison, best first.
        raced: The opponents that left the race.
    """
    found = [_start(f.recipe, f.lr, f.score) for f in finalists]
    found += [_start(r.recipe, r.lr, None) for r in raced]
    return [start for start in found if start is not None]


def _start(recipe: str, lr: float | None, score: float | None) -> Start | None:
    form = Baseline.parse(recipe).as_rule()
    if form is None:
        return None
    return Start(recipe, form.rule, None if lr is None else lr * form.scale, score, rate=lr)
