"""Material of mutations: operators, expressions, terms and decays drawn from a space."""

from __future__ import annotations

import random
from collections.abc import Sequence

from optsmith.rules import Operator, Rule, operators, subrule
from optsmith.searchers._dictionary import DICTIONARY, rate_of
from optsmith.searchers._start import Start
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
    """

    def __init__(self, space: Space, starts: Sequence[Start]) -> None:
        self.space = space
        self._by_arity = [[o for o in space.operators if o.arity == n] for n in range(3)]
        self._decays = [o for o in self._by_arity[0] if o.feed == "time"]
        names = {o.name for o in space.operators}
        self._terms: list[tuple[Rule, float]] = []
        for term in DICTIONARY:
            rule, rate = Rule.parse(term.text), rate_of(term, starts)
            in_space = {o.name for o in rule.operators if o.name[:1].isalpha()} <= names
            if rate is not None and in_space:
                self._terms.append((rule, rate))

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

    def term(self, rng: random.Random) -> tuple[Rule, float] | None:
        """Return an expression of the dictionary and the learning rate that suits it."""
        return rng.choice(self._terms) if self._terms else None

    def decay(self, rng: random.Random) -> Operator | None:
        """Return a decay of the space; None if there is none."""
        return rng.choice(self._decays) if self._decays else None
