"""Polishing: all numbers of a rule, and its learning rate, are tuned together."""

from __future__ import annotations

from collections.abc import Sequence

from optsmith.rules import Rule, number
from optsmith.searchers._genome import Genome, joined, normal, split_schedule
from optsmith.searchers._tuner import Tuner
from optsmith.space import Space

EXPONENT = 1.0001
"""Exponent of a decay: not a whole number, so that it is tuned."""

DIGITS = 4
"""Significant digits of numbers."""

POPULATION = 12
"""Settings per generation."""


class Polish:
    """Tunes the constants of a rule and its learning rate by CMA-ES.

    Args:
        genome: Where to start.
        space: The space, in which all rules are.
        seed: Seed of all draws.
    """

    def __init__(self, genome: Genome, space: Space, seed: int) -> None:
        self._lr = genome.lr
        # A factor in front is tuned in place of the learning rate.
        factor = Rule((number(1.0),))
        self._tuner = Tuner(joined("mul", factor, _tunable(genome.rule, space)), seed, POPULATION)

    @property
    def generation(self) -> int:
        """Number of generations told."""
        return self._tuner.generation

    def ask(self) -> list[Genome]:
        """Return the genomes of the next generation."""
        return [self._genome(rule) for rule in self._tuner.ask()]

    def tell(self, losses: Sequence[float]) -> None:
        """Register the losses of a generation."""
        self._tuner.tell(losses)

    @property
    def best(self) -> Genome:
        """The genome at the centre of the distribution."""
        return self._genome(self._tuner.best)

    def _genome(self, rule: Rule) -> Genome:
        return normal(Genome(rule, self._lr), DIGITS)


def _tunable(rule: Rule, space: Space) -> Rule:
    """Return a rule with an exponent of its decay, if that is in the space."""
    schedule, body = split_schedule(rule)
    if schedule is None or schedule.length > 1:
        return rule
    powered = joined("mul", joined("pow", schedule, Rule((number(EXPONENT),))), body)
    return powered if space.contains(powered) else rule
