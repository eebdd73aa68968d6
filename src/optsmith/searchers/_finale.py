"""The end of an evolution: the best rules with other seeds, then the numbers of the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from optsmith.rules import constants
from optsmith.searchers._base import Candidate
from optsmith.searchers._genome import Genome
from optsmith.searchers._polish import Polish
from optsmith.searchers._population import Member
from optsmith.space import Space

CHOICE, TUNING = "choice", "tuning"
"""Phases of the candidates."""


class Finale:
    """Chooses among the best rules, and tunes the numbers of the best, in steps of candidates.

    The best of many scores is partly luck, so that the rules are scored again on blocks of seeds
    that no score before has used. Generations of tuned numbers have blocks of their own.

    Args:
        finalists: The best rules, best first.
        space: The space.
        seed: Seed of all draws.
        blocks: Blocks of seeds for each of the finalists; the first one is block 1.
        tuning_block: Block of the first generation of tuned numbers; it follows from the options
            of the search, so that a candidate has the same seeds with any budget.
        generations: Number of these generations.
    """

    def __init__(
        self,
        finalists: Sequence[Member],
        space: Space,
        seed: int,
        *,
        blocks: int,
        tuning_block: int,
        generations: int,
    ) -> None:
        self._finalists = list(finalists)
        self._space, self._seed = space, seed
        self._blocks, self._tuning_block = blocks, tuning_block
        self._generations = generations
        self._is_chosen = False
        self._polish: Polish | None = None
        if not (finalists and blocks):
            self._choose({})

    def candidates(self) -> list[Candidate]:
        """Return the candidates of the current step; none if there are no more steps."""
        if not self._is_chosen:
            return [
                Candidate(_name(m, block), m.genome.rule, block=block, lr=m.genome.lr, phase=CHOICE)
                for block in range(1, self._blocks + 1)
                for m in self._finalists
            ]
        if self._polish is None or self._polish.generation == self._generations:
            return []
        generation, best = self._polish.generation, self._finalists[0]
        name, block = f"{best.id} {TUNING} {generation}", self._tuning_block + generation
        return [
            Candidate(f"{name}:{i}", g.rule, block=block, lr=g.lr, phase=TUNING)
            for i, g in enumerate(self._polish.ask())
        ]

    def tell(self, losses: Mapping[str, float]) -> None:
        """Register the losses of the current step by candidate, in order, and begin the next."""
        if self._polish is not None:
            self._polish.tell(list(losses.values()))
        else:
            self._choose(losses)

    def _choose(self, losses: Mapping[str, float]) -> None:
        """Sort the finalists by their losses with other seeds."""
        blocks = range(1, self._blocks + 1)
        self._finalists.sort(key=lambda m: sum(losses.get(_name(m, b), math.inf) for b in blocks))
        self._is_chosen = True
        if self._finalists and self._generations:
            best = self._finalists[0].genome
            if constants(best.rule):
                self._polish = Polish(best, self._space, self._seed)

    def describe(self) -> str:
        """Return the current step in words."""
        if self._polish is not None:
            return "tuning the numbers of the best rule"
        return "scoring the best rules with other seeds"

    def best(self) -> list[Genome]:
        """Return the best rule with tuned numbers, and the finalists, best first."""
        found = [m.genome for m in self._finalists]
        if self._polish is not None and self._polish.generation:
            found.insert(0, self._polish.best)
        return found


def _name(member: Member, block: int) -> str:
    return f"{member.id} block {block}"
