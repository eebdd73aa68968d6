"""The population of an evolution: tournaments, ageing, and the best rules so far."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from optsmith.rules import skeleton
from optsmith.searchers._genome import Genome


@dataclass(frozen=True, slots=True)
class Member:
    """A rule that was trained at full length.

    Attributes:
        id: Id of its candidate.
        genome: Rule and learning rate.
        loss: Its score, smaller is better.
        known: Whether it is a starting point.
    """

    id: str
    genome: Genome
    loss: float
    known: bool = False


class Population:
    """Rules that can have children; the oldest leaves when another one enters.

    Args:
        most: Maximum number of members.

    Attributes:
        ranked: All rules that were ever members, best first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._members: deque[Member] = deque()
        self.ranked: list[Member] = []

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: Member) -> bool:
        """Add a member, and return whether it is the best so far."""
        is_best = not self.ranked or member.loss < self.ranked[0].loss
        self.ranked.append(member)
        self.ranked.sort(key=lambda m: m.loss)  # stable: of equal losses, the earlier is better
        self._members.append(member)
        if len(self._members) > self._most:
            self._members.popleft()
        return is_best

    def tournament(self, size: int, rng: random.Random) -> Member:
        """Return the best of some random members."""
        drawn = [rng.choice(self._members) for _ in range(size)]
        return min(drawn, key=lambda member: member.loss)

    def restart(self) -> None:
        """Keep the best rule, and starting points; all others leave."""
        known = [m for m in self.ranked if m.known and m is not self.ranked[0]]
        self._members = deque([*known[: self._most - 1], self.ranked[0]])

    def best(self, count: int) -> list[Member]:
        """Return the best rules of different structure, best first.

        Starting points are returned only if there is nothing else.
        """
        new = [m for m in self.ranked if not m.known] or self.ranked
        by_structure: dict[object, Member] = {}
        for member in new:
            by_structure.setdefault(skeleton(member.genome.rule), member)
        return list(by_structure.values())[:count]
