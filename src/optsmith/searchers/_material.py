"""Material of mutations: operators, expressions, terms and decays drawn from a space."""

from __future__ import annotations

import random
from collections.abc import Sequence

from optsmith.rules import Operator, Rule, operators, subrule
from optsmith.searchers._dictionary import DICTIONARY, rate_of
from optsmith.searchers._genome import Genome
from optsmith.searchers._start import Start
from optsmith.searchers._update_size import UpdateSize
from optsmith.space import Space

TRIES = 40
"""Draws until an expression is short enough."""

MOST_DRAWN = 6
"""Maximum length of an expression that is drawn at random."""


class Material:
    """Draws parts of new rules.

    Args:
        space: The space.
        starts: Rules whose learning rates tell the size of terms.
        sizes: The size of updates, which tells that of other terms.
    """

    def __init__(self, space: Space, starts: Sequence[Start], sizes: UpdateSize) -> None:
        self.space, self.sizes = space, sizes
        self._by_arity = [[o for o in space.operators if o.arity == n] for n in range(3)]
        self._decays = [o for o in self._by_arity[0] if o.feed == "time"]
        terms = [(Rule.parse(term.text), rate_of(term, starts)) for term in DICTIONARY]
        self._terms = [(rule, rate) for rule, rate in terms if space.knows(rule)]

    def operator(self, arity: int, rng: random.Random) -> Operator | None:
        """Return an operator of the space, drawn by its weight; None if there is none."""
        known = self._by_arity[arity]
        if not known:
            return None
        weights = [self.space.weights.get(o.name, 1.0) for o in known]
        return rng.choices(known, weights)[0]

    def expression(self, rng: random.Random) -> Rule:
        """Return a short expression, a part of a rule drawn from the space."""
        for _ in range(TRIES):
            drawn = self.space.sample(rng)
            part = subrule(drawn, rng.randrange(drawn.length))
            if part.length <= MOST_DRAWN:
                return part
        return Rule((self.operator(0, rng) or operators["g"],))

    def term(self, genome: Genome, rng: random.Random) -> Genome | None:
        """Return an expression of the dictionary with the learning rate that suits it.

        If there is no optimizer like it, its updates are as large as those of the given genome.
        None if the space has no such expression.
        """
        if not self._terms:
            return None
        rule, rate = rng.choice(self._terms)
        return Genome(rule, self.sizes.kept(genome, rule) if rate is None else rate)

    def decay(self, rng: random.Random) -> Operator | None:
        """Return a decay of the space; None if there is none."""
        return rng.choice(self._decays) if self._decays else None
