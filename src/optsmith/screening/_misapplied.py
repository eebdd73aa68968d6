"""Operators of whole tensors that are applied to a number."""

from __future__ import annotations

from optsmith.rules import SCALAR_FEEDS, Operator, Rule, for_role, is_built_in

_ONE_NUMBER = frozenset({"rms", "fan", "aspect"})
"""Operators of scope "tensor" whose value is one number per tensor."""


def misapplied(rule: Rule) -> str:
    """Return which built-in operator of whole tensors has a number as operand, or "".

    A number is the same for all elements of a tensor: its norm, its rows and its singular values
    say nothing. Such a rule is a longer form of another one, or no rule at all.
    """
    if not any(operator.scope == "tensor" for operator in rule.operators):
        return ""
    return _misapplied(for_role(rule, is_hidden=True)) or _misapplied(
        for_role(rule, is_hidden=False)
    )


def _misapplied(rule: Rule) -> str:
    found: list[str] = []

    def is_number(operator: Operator, operands: list[bool]) -> bool:
        ours = operator.scope == "tensor" and is_built_in(operator)
        if ours and any(operands):
            found.append(operator.name)
        if ours and operator.name in _ONE_NUMBER:
            return True
        if operator.arity == 0:
            return operator.feed in SCALAR_FEEDS
        # Random operators differ between elements, and users' operators may.
        return not operator.random and operator.scope == "element" and all(operands)

    rule.fold(is_number)
    return f"applies {found[0]} to a number" if found else ""
