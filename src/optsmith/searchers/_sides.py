"""The two sides of a rule for roles: the updates of hidden matrices, and those of the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optsmith.rules import BY_ROLE, Rule, is_number, subrule

ORTH = "orth"


@dataclass(frozen=True, slots=True)
class Sides:
    """A rule whose updates of hidden matrices are orthogonalised, such as Muon.

    Attributes:
        rule: The rule.
        at: Position of the operator that tells roles apart.
        hidden: The updates of hidden matrices.
        rest: Those of all other parameters.
        momentum: What is orthogonalised.
    """

    rule: Rule
    at: int
    hidden: Rule
    rest: Rule
    momentum: Rule

    @property
    def size(self) -> float:
        """The number in front of the updates of hidden matrices."""
        return weight(self.hidden)

    def with_sides(self, hidden: Rule, rest: Rule) -> Rule:
        """Return the rule with other updates."""
        end = self.at + 1 + self.hidden.length + self.rest.length
        before, after = self.rule.operators[: self.at + 1], self.rule.operators[end:]
        return Rule((*before, *hidden.operators, *rest.operators, *after))


def sides_of(rule: Rule) -> Sides | None:
    """Return the sides of a rule; None unless it orthogonalises the updates of hidden matrices."""
    at = next((i for i, o in enumerate(rule.operators) if o.name == BY_ROLE), None)
    if at is None:
        return None
    hidden = subrule(rule, at + 1)
    orth = next((f for f in _factors(hidden) if f.operators[0].name == ORTH), None)
    if orth is None:
        return None
    return Sides(rule, at, hidden, subrule(rule, at + 1 + hidden.length), subrule(orth, 1))


def weight(rule: Rule) -> float:
    """Return the product of the numbers among the factors of a rule."""
    numbers = (f.operators[0] for f in _factors(rule) if is_number(f.operators[0]))
    return math.prod(float(operator.torch()) for operator in numbers)


def _factors(rule: Rule) -> list[Rule]:
    """Return the factors of a product, or the rule itself."""
    if rule.operators[0].name != "mul":
        return [rule]
    first = subrule(rule, 1)
    return [*_factors(first), *_factors(subrule(rule, 1 + first.length))]
