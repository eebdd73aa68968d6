"""Known rules that a search starts from."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith.rules import Rule


@dataclass(frozen=True, slots=True)
class Start:
    """A known rule with what has been measured of it.

    Attributes:
        name: Where it comes from, such as `torch:adam+cosine`.
        rule: The rule.
        lr: Its tuned learning rate; None if it is not known.
        score: Its score in runs of the search's length; None if it is not known.
    """

    name: str
    rule: Rule
    lr: float | None = None
    score: float | None = None

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
