"""The constants of a rule: its numbers and the parameter values of its operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from optsmith._errors import RuleError
from optsmith.rules._operator import Parameter, is_number, number
from optsmith.rules._rule import Rule

COEFFICIENT = Parameter("coefficient", 1.0, 0.0, scale="log")
"""Range and scale of the numbers of a rule."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number of a rule that can be tuned.

    Whole exponents, such as that of g^2, and parameters that are not `tuned` are no constants: they
    are part of the rule's structure.

    Attributes:
        at: Position of its operator in the rule.
        index: Index of the parameter; 0 for a number.
        value: The value.
        parameter: Range and scale.
    """

    at: int
    index: int
    value: float
    parameter: Parameter


def constants(rule: Rule) -> tuple[Constant, ...]:
    """Return the constants of a rule, in the order of its operators."""
    found = []
    whole = _whole_exponents(rule)
    for at, operator in enumerate(rule.operators):
        if is_number(operator):
            if at not in whole:
                found.append(Constant(at, 0, float(operator.torch()), COEFFICIENT))
        elif operator.feed != "nothing":
            pairs = enumerate(zip(operator.parameters, operator.values, strict=True))
            found += [Constant(at, i, value, p) for i, (p, value) in pairs if p.tuned]
    return tuple(found)


def with_constants(rule: Rule, values: Sequence[float]) -> Rule:
    """Return the rule with other constants, in the order of `constants`.

    Raises:
        RuleError: There are too few or too many values, or one is out of range.
    """
    known = constants(rule)
    if len(values) != len(known):
        raise RuleError(f"{rule} has {len(known)} constants, not {len(values)}")
    changed: dict[int, dict[int, float]] = {}
    for constant, value in zip(known, values, strict=True):
        changed.setdefault(constant.at, {})[constant.index] = value
    operators = list(rule.operators)
    for at, by_index in changed.items():
        operator = operators[at]
        if is_number(operator):
            operators[at] = number(by_index[0])
        else:
            all_values = enumerate(operator.values)
            operators[at] = operator.variant(*(by_index.get(i, old) for i, old in all_values))
    return Rule(tuple(operators))


def skeleton(rule: Rule) -> tuple[Any, ...]:
    """Return a key that rules have in common if they differ only in constants.

    Such rules have the same program. Operators whose state is shared because their constants are
    equal stay equal, so they must be equal in all rules of a skeleton.
    """
    whole, tied = _whole_exponents(rule), dict[Any, int]()
    key: list[Any] = []
    for at, operator in enumerate(rule.operators):
        if is_number(operator):
            key.append(operator.name if at in whole else "number")
            continue
        fixed = tuple(
            None if p.tuned and operator.feed != "nothing" else value
            for p, value in zip(operator.parameters, operator.values, strict=True)
        )
        ties = tuple(
            tied.setdefault((id(operator.state), i, value), len(tied))
            for i, value in enumerate(operator.values)
            if operator.state
        )
        # The functions are part of it, because a name may be registered again.
        key.append((operator.name, operator.torch, operator.state, operator.scope, fixed, ties))
    return tuple(key)


def _whole_exponents(rule: Rule) -> set[int]:
    """Return the positions of whole numbers that are exponents: x^2 is computed as a product."""
    found: set[int] = set()
    slots: list[bool] = [False]  # of the open slots, whether each is an exponent
    for at, operator in enumerate(rule.operators):
        is_exponent = slots.pop()
        if is_exponent and is_number(operator) and float(operator.torch()).is_integer():
            found.add(at)
        slots += [operator.name == "pow" and i == 1 for i in reversed(range(operator.arity))]
    return found
