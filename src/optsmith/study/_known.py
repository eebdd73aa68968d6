"""Names of known optimizers, for rules that a search finds again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice

from optsmith._errors import RuleError
from optsmith._zoo import zoo
from optsmith.evaluation import Evaluation
from optsmith.optim import is_baseline, modern
from optsmith.rules import Rule, is_built_in, structure
from optsmith.screening import Screen

_SPELLINGS = {
    "momentum": "mom(g)",
    "nesterov": "g + 0.9*mom(g)",
    "adam": "ema(g)/sqrt(ema(g2, 0.999))",
    "rmsprop": "g/sqrt(0.01*mom(g2, 0.99))",
    "optsmith:lion": "sign(mom(g, 0.99) + 10*g)",
}
"""Other spellings of baselines, which have another structure."""

TUNED = ", tuned"
"""Follows the name of a known optimizer whose constants differ."""


def known_name(rule: Rule) -> str:
    """Return the name of the known optimizer that a rule is, or "".

    A rule that equals a baseline or a rule of the zoo up to a positive factor has its name, such as
    `torch:nesterov+cosine` or `optsmith:lion`. A rule that differs from one only in its constants
    is named `torch:nesterov, tuned`.
    """
    return _known_name(rule)


@lru_cache(maxsize=4096)
def _known_name(rule: Rule) -> str:
    by_function, by_structure = _names()
    name = by_function.get(_function(rule), "")
    if name or not all(map(is_built_in, rule.operators)):
        return name
    name = by_structure.get(structure(rule), "")
    return f"{name}{TUNED}" if name else ""


def is_known(rule: Rule) -> bool:
    """Return whether a rule is a known optimizer, with its own constants."""
    name = known_name(rule)
    return bool(name) and not name.endswith(TUNED)


def without_known(evaluations: Iterable[Evaluation], count: int | None = None) -> list[Evaluation]:
    """Return evaluations of rules that are not known optimizers, in the same order.

    If all of them are, the known ones are returned, so that a search that accepted a rule has a
    best one.

    Args:
        evaluations: The evaluations, best first.
        count: Largest number of evaluations to return; None: all.
    """
    every = list(evaluations)
    unknown = (e for e in every if not _is_known_recipe(e.recipe))
    return list(islice(unknown, count)) or every[:count]


def _is_known_recipe(recipe: str) -> bool:
    if is_baseline(recipe):
        return False
    try:
        return is_known(Rule.parse(recipe))
    except RuleError:  # its operators are not registered here, so it is none of ours
        return False


def _function(rule: Rule) -> str:
    return Screen()(rule).scale_fingerprint


@cache
def _names() -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of known rules by function (up to scale), and by structure.

    If several names fit, the first is used: baselines come before rules of the zoo.
    """
    by_function: dict[str, str] = {}
    by_structure: dict[str, str] = {}
    for name, rule in _known_rules():
        by_function.setdefault(_function(rule), name)
        by_structure.setdefault(structure(rule), name)
    return by_function, by_structure


def _known_rules() -> Iterator[tuple[str, Rule]]:
    for name, baseline in modern.items():
        form = baseline.as_rule()
        if form is not None:
            yield name, form.rule
            if spelling := _SPELLINGS.get(baseline.optimizer):
                yield name, Rule.parse(f"({form.decay})*({spelling})")
    schedules = {b.schedule: b.as_rule() for b in modern.values() if b.optimizer == "sgd"}
    for name, entry in zoo.items():
        yield name, entry.rule
        if not entry.rule.uses("time"):
            for schedule, form in schedules.items():
                if form is not None and form.rule.uses("time"):
                    yield f"{name}+{schedule}", Rule.parse(f"({form.decay})*({entry.rule})")
