"""Known rules that a search starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from optsmith.rules import Operator, Rule, is_number

Origin = Literal["given", "opponent", "zoo"]


@dataclass(frozen=True, slots=True)
class Start:
    """A known rule with what has been measured of it.

    Attributes:
        name: Where it comes from, such as `torch:adam+cosine`.
        rule: The rule.
        lr: The tuned learning rate of the rule; None if it is not known.
        score: Its score in runs of the search's length; None if it is not known.
        rate: The tuned learning rate of the optimizer of that name, whose updates may differ from
            those of the rule by a factor.
        origin: Whether the user has given it, or it is an opponent or a rule of the zoo.
    """

    name: str
    rule: Rule
    lr: float | None = None
    score: float | None = None
    rate: float | None = None
    origin: Origin = "opponent"

    @property
    def optimizer(self) -> str:
        """The name without package and schedule, such as `adam`."""
        return self.name.rpartition(":")[2].partition("+")[0]


def split_decay(rule: Rule) -> tuple[Rule | None, Rule]:
    """Return the decay in front of a rule, if there is one, and the rest of the rule."""
    first, *rest = rule.operators
    if first.name == "mul" and rest and rest[0].feed == "time":
        return Rule((rest[0],)), Rule(tuple(rest[1:]))
    return None, rule


def with_averages(rule: Rule) -> Rule:
    """Return a rule with momenta and steps of Adam and RMSprop written as averages.

    So that their parts can be shared, tuned and left out. The small numbers that these steps add to
    a denominator become that of the division.
    """

    def written(operator: Operator, operands: list[tuple[Operator, ...]]) -> tuple[Operator, ...]:
        text = _WRITTEN.get(operator.name)
        if text is not None:
            return Rule.parse(text.format(*operator.values)).operators
        return (operator, *(o for operand in operands for o in operand))

    return Rule(rule.fold(written))


def with_weights(rule: Rule) -> Rule:
    """Return a rule whose sums have a number in front of their second term, so that it is tuned."""

    def weighted(operator: Operator, operands: list[tuple[Operator, ...]]) -> tuple[Operator, ...]:
        if operator.name in ("add", "sub"):
            first, second = operands
            if not (second[0].name == "mul" and is_number(second[1])) and not is_number(second[0]):
                second = (*_ONE_TIMES, *second)
            operands = [first, second]
        return (operator, *(o for operand in operands for o in operand))

    return Rule(rule.fold(weighted))


_ONE_TIMES = Rule.parse("1*g").operators[:2]

_WRITTEN = {
    "m1": "mom(g, {0!r})",
    "sm1": "sign(mom(g, {0!r}))",
    "g2": "g^2",
    "Adam": "{0!r}*(ema(g, {1!r})/sqrt(ema(g^2, {2!r})))",
}
