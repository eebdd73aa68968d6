"""The rules from which a search starts: the user's, the opponents, and the zoo."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith._zoo import zoo
from optsmith.optim import Baseline
from optsmith.searchers import Start
from optsmith.study._race import Finalist, Raced
from optsmith.study._settings import Settings
from optsmith.study._start_from import read_start


def all_starts(
    settings: Settings, finalists: Sequence[Finalist], raced: Sequence[Raced]
) -> list[Start]:
    """Return the rules from which a search starts, the most important first.

    These are the rules that the user has given. With a warm start, the opponents follow, the best
    first, and then the zoo.

    Args:
        settings: The settings of the search.
        finalists: The opponents that reach the comparison, best first.
        raced: The opponents that left the race.
    """
    found = [read_start(text) for text in settings.start_from]
    if settings.search.warm_start:
        found += starts_of(finalists, raced)
        found += [Start(name, entry.rule, origin="zoo") for name, entry in zoo.items()]
    return found


def starts_of(finalists: Sequence[Finalist], raced: Sequence[Raced]) -> list[Start]:
    """Return the opponents that can be written as rules, with their learning rates, best first.

    Those that were evaluated as candidates of the search are have scores.

    Args:
        finalists: The opponents that reach the comparison, best first.
        raced: The opponents that left the race.
    """
    later_first = sorted(raced, key=lambda r: (r.score is None, -r.fidelity))
    found = [_start(f.recipe, f.lr, f.score) for f in finalists]
    found += [_start(r.recipe, r.lr, None) for r in later_first]
    return [start for start in found if start is not None]


def _start(recipe: str, lr: float | None, score: float | None) -> Start | None:
    form = Baseline.parse(recipe).as_rule()
    if form is None:
        return None
    return Start(recipe, form.rule, None if lr is None else lr * form.scale, score, rate=lr)
