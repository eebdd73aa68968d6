"""Genomes: rules with their learning rates, as an evolution changes them."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith.rules import SCALAR_FEEDS, Rule, operators, rounded, subrule
from optsmith.searchers._dictionary import folded, plain_rule
from optsmith.searchers._start import Start, with_averages
from optsmith.space import Space

DIGITS = 3
"""Significant digits of constants and learning rates."""


@dataclass(frozen=True, slots=True)
class Genome:
    """A rule with its learning rate.

    Attributes:
        rule: The rule.
        lr: The learning rate.
    """

    rule: Rule
    lr: float

    @property
    def key(self) -> tuple[str, float]:
        """Text and learning rate, which are evaluated once."""
        return str(self.rule), self.lr


def joined(name: str, *operands: Rule) -> Rule:
    """Return an operator applied to rules."""
    return Rule((operators[name], *(o for operand in operands for o in operand.operators)))


def split_schedule(rule: Rule) -> tuple[Rule | None, Rule]:
    """Return the factor in front of a rule that depends on time only, and the rest of the rule."""
    if rule.operators[0].name == "mul":
        factor = subrule(rule, 1)
        inputs = [o for o in factor.operators if not o.arity]
        if factor.uses("time") and all(o.feed in SCALAR_FEEDS for o in inputs):
            return factor, subrule(rule, 1 + factor.length)
    return None, rule


def normal(genome: Genome, digits: int = DIGITS) -> Genome:
    """Return a genome with round numbers, whose constant factor is a part of the learning rate."""
    schedule, body = split_schedule(genome.rule)
    found = folded(body, genome.lr)
    rule = found.rule if schedule is None else joined("mul", schedule, found.rule)
    return Genome(rounded(rule, digits), float(f"{found.lr:.{digits}g}"))


def genome_of(start: Start, space: Space) -> Genome | None:
    """Return a known rule in a form that is in the space; None if there is none.

    The form with averages is preferred, because its parts can be changed. A learning rate that is
    not known is 1.
    """
    plain = plain_rule(start)
    for rule in (with_averages(plain), plain, start.rule):
        genome = normal(Genome(rule, start.lr or 1.0))
        if space.contains(genome.rule):
            return genome
    return None
