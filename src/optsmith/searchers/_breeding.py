"""Breeding: the children of an evolution, from starting points, mutations and random draws."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optsmith.rules import Rule
from optsmith.searchers._dictionary import plain_rule
from optsmith.searchers._genome import Genome, genome_of
from optsmith.searchers._mutations import Mutator
from optsmith.searchers._population import Member, Population
from optsmith.searchers._start import Start
from optsmith.searchers._update_size import UpdateSize
from optsmith.space import Space

TRIES = 8
"""Draws until a child is new, and within the limits of the search."""


@dataclass(frozen=True, slots=True)
class Child:
    """A rule to be tried.

    Attributes:
        rule: The rule.
        lr: Its learning rate; None: it is tuned.
        mutations: Names of the mutations that made it; none for starting points and random rules.
        parent: Loss of its parent; infinite without one.
        known: Whether it is a starting point.
    """

    rule: Rule
    lr: float | None
    mutations: tuple[str, ...] = ()
    parent: float = math.inf
    known: bool = False


class Breeder:
    """Makes children that were not made before, in the space and within the limits of the search.

    Starting points whose score and learning rate are known are the first members of the
    population; the others are its first children.

    Args:
        space: The space.
        starts: The starting points.
        population: The population, which the starting points enter.
        tournament: Number of members of which the best is a parent.
        sign: 1 if smaller scores are better, -1 if larger ones are.
        allows: Returns whether a rule is within the limits of the search.
    """

    def __init__(
        self,
        space: Space,
        starts: Sequence[Start],
        population: Population,
        tournament: int,
        sign: int,
        allows: Callable[[Rule], bool] = lambda rule: True,
    ) -> None:
        self.space, self.population, self._tournament = space, population, tournament
        self._untried: deque[Child] = deque()
        self._restarted = False
        self._made: set[tuple[str, float | None]] = set()
        self._allows = allows
        known = [(s, g) for s in starts if (g := genome_of(s, space)) is not None]
        self._sizes = UpdateSize([g for s, g in known if s.lr is not None])
        self._mutator = Mutator(space, starts, self._sizes)
        for i, (start, genome) in enumerate(known):
            if not allows(genome.rule):
                continue
            if start.score is None or start.lr is None or plain_rule(start) != start.rule:
                self._untried.append(self._first(start, genome))
            elif self._is_new(genome.rule, genome.lr):
                member = Member(f"start:{i}", genome, sign * start.score, start.origin != "given")
                population.enter(member)

    def _first(self, start: Start, genome: Genome) -> Child:
        """Return a starting point as a child.

        The learning rate of a rule that the user has given is tuned, if it is not known. Others get
        one that suits them.
        """
        lr: float | None = genome.lr
        if start.lr is None:
            lr = None if start.origin == "given" else self._sizes.suited(genome.rule)
        return Child(genome.rule, lr, known=start.origin != "given")

    def restart(self) -> None:
        """Keep the best member and the starting points; the next new children are random rules."""
        self.population.restart()
        self._restarted = True

    def child(self, prefers_new: bool, rng: random.Random) -> Child:
        """Return the next child: a mutant, or a new rule.

        New rules are starting points that were not tried, and random rules if there are few
        members, or after a restart.

        Args:
            prefers_new: Whether it is a new rule, if there is a reason for one.
            rng: Source of all draws.
        """
        few = len(self.population) < self._tournament
        while self._untried and (few or prefers_new):
            start = self._untried.popleft()
            if self._is_new(start.rule, start.lr):
                return start
        is_random = prefers_new and (few or self._restarted)
        self._restarted = self._restarted and prefers_new
        found = self._mutant(rng) if len(self.population) and not is_random else None
        return found or self._random_rule(rng)

    def _random_rule(self, rng: random.Random) -> Child:
        rule = self.space.sample(rng)
        for _ in range(TRIES):
            if self._allows(rule):
                break
            rule = self.space.sample(rng)
        lr = self._sizes.suited(rule)
        self._is_new(rule, lr)
        return Child(rule, lr)

    def _mutant(self, rng: random.Random) -> Child | None:
        for _ in range(TRIES):
            parent = self.population.tournament(self._tournament, rng)
            mate = self.population.tournament(1, rng)  # any, because parents are often alike
            mutant = self._mutator.mutant(parent.genome, mate.genome, rng)
            if mutant is None or not self._allows(mutant.genome.rule):
                continue
            genome = mutant.genome
            if self._is_new(genome.rule, genome.lr):
                return Child(genome.rule, genome.lr, mutant.names, parent.loss)
        return None

    def _is_new(self, rule: Rule, lr: float | None) -> bool:
        """Return whether a rule was not made before with this learning rate, and remember it."""
        key = (str(rule), lr)
        is_new = key not in self._made
        self._made.add(key)
        return is_new
