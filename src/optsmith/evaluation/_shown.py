"""Texts of recipes as people read them."""

from __future__ import annotations

import warnings
from functools import lru_cache

from optsmith._errors import RuleError, SimplifyWarning
from optsmith.optim import is_baseline
from optsmith.rules import Rule

LONGEST_NAME = 60
"""Characters of a rule that is named by its text in sentences and legends."""


@lru_cache(maxsize=256)
def shown(recipe: str) -> str:
    """Return a rule as simplified by SymPy, or its text if that fails; baselines as they are."""
    if is_baseline(recipe):
        return recipe
    with warnings.catch_warnings():
        warnings.simplefilter("error", SimplifyWarning)
        try:
            return str(Rule.parse(recipe).simplify())
        except (RuleError, SimplifyWarning):
            return recipe


def named_or(name: str, text: str) -> str:
    """Return the text of a rule, or a name for it if the text is too long for a sentence."""
    return text if len(text) <= LONGEST_NAME else name
