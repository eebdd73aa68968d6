"""Which operators come with the package, and the definitions of those that users added."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from optsmith.rules import _catalogue, _modern  # noqa: F401 - they register the operators
from optsmith.rules._operator import NAME, Operator, operators

if TYPE_CHECKING:
    from optsmith.space import Space

BUILT_IN = dict(operators)
"""The operators that come with the package, by name."""


def is_built_in(operator: Operator) -> bool:
    """Return whether an operator is one of the package's or a variant of one."""
    if not NAME.fullmatch(operator.name):
        return True  # a number
    ours = BUILT_IN.get(operator.name)
    return ours is not None and (ours.torch, ours.state) == (operator.torch, operator.state)


def definitions(source: Space | Iterable[Operator]) -> dict[str, str]:
    """Return the definitions of the operators that users added, by name.

    Args:
        source: A space, or operators.
    """
    every: Any = getattr(source, "operators", source)
    found = {o.name: o.definition for o in every if not is_built_in(o)}
    return dict(sorted(found.items()))
