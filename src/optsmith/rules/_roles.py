"""Rules that treat hidden matrices differently, and the two rules that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.rules._operator import Operator
from optsmith.rules._rule import Rule

BY_ROLE = "hidden"
"""Name of the operator that is its first operand for hidden matrices, and its second otherwise."""


def depends_on_role(rule: Rule) -> bool:
    """Return whether a rule treats hidden matrices differently."""
    return any(operator.name == BY_ROLE for operator in rule.operators)


def for_role(rule: Rule, is_hidden: bool) -> Rule:
    """Return the rule for hidden matrices, or that for all other parameters."""
    if not depends_on_role(rule):
        return rule

    def chosen(
        operator: Operator, operands: Sequence[tuple[Operator, ...]]
    ) -> tuple[Operator, ...]:
        if operator.name == BY_ROLE:
            return operands[0 if is_hidden else 1]
        return (operator, *(o for operand in operands for o in operand))

    return Rule(rule.fold(chosen))
