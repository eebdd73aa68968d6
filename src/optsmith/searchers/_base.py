"""The contract of a searcher: ask for candidates, tell what became of them."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from optsmith.rules import Rule
from optsmith.space import Partial

DRAWS_PER_LEVEL = 4500
"""A level that has not found its candidates after so many draws ends."""

EVALUATIONS_PER_BUDGET = 3.5
"""A search ends after so many evaluations for each one that it may accept."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A rule to be tried; (level, index) is its name, whoever evaluates it and when.

    Attributes:
        level: The level of the search.
        index: Its number among the draws of the level.
        node: The child of the current node that it was drawn from.
        rule: The rule.
    """

    level: int
    index: int
    node: Partial
    rule: Rule

    @property
    def id(self) -> tuple[int, int]:
        """Level and index."""
        return self.level, self.index


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a candidate.

    Attributes:
        kind: One of the counters: `refused`, `duplicate`, `accepted` or the status of an
            evaluation that was not accepted.
        key: Fingerprint, under which equal rules are known; empty when they are not told apart.
        score: The score when accepted, or the known one of the rule that this is a duplicate of;
            None when there is none.
        reason: Why it was refused.
    """

    kind: str
    key: str = ""
    score: float | None = None
    reason: str = ""

    @property
    def evaluated(self) -> bool:
        """Whether it cost an evaluation."""
        return self.kind not in ("refused", "duplicate")


@dataclass(frozen=True, slots=True)
class ChildScore:
    """A child of a level's node.

    Attributes:
        node: The child.
        score: Mean of the scores registered for it; None when there are none.
        count: Their number.
    """

    node: Partial
    score: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How a level ended.

    Attributes:
        level: Its number.
        node: The node it explored.
        draws: Candidates drawn.
        accepted: Candidates accepted.
        children: The node's children with their scores.
        chosen: The child that the next level explores; None when the search stays or ends.
        ended: Why the level ended.
    """

    level: int
    node: Partial
    draws: int
    accepted: int
    children: tuple[ChildScore, ...]
    chosen: Partial | None
    ended: str

    def to_json(self) -> dict[str, Any]:
        """Return the decision as plain data."""
        return {
            "level": self.level,
            "node": str(self.node),
            "draws": self.draws,
            "accepted": self.accepted,
            "ended": self.ended,
            "chosen": None if self.chosen is None else str(self.chosen),
            "children": [
                {
                    "node": str(child.node),
                    "operator": str(child.node.operators[-1]) if child.node.operators else "",
                    "score": child.score,
                    "count": child.count,
                    "is_leaf": child.node.is_complete,
                }
                for child in self.children
            ],
        }


class Searcher(ABC):
    """Proposes rules and learns from their scores; knows nothing of tasks, processes or storage.

    Deterministic: what it asks depends on its settings and on what it was told, in order. Not safe
    for threads; one coordinator owns it.
    """

    decisions: list[Decision]

    @abstractmethod
    def ask(self) -> Candidate | None:
        """Return the next candidate.

        Any number may be asked before the first is told, but no more evaluations begun than
        `need` says, so that none is in vain. None: there is nothing more to ask until all that
        were asked have been told, and then, if it is None again, the search is over.
        """

    @abstractmethod
    def tell(self, candidate: Candidate, outcome: Outcome) -> None:
        """Say what became of a candidate: of each one asked, in the order they were asked."""

    @property
    @abstractmethod
    def need(self) -> int:
        """How many evaluations can still be used before the searcher decides anew."""

    @property
    @abstractmethod
    def node(self) -> Partial:
        """The node that is being explored."""

    @property
    @abstractmethod
    def level(self) -> int:
        """The level that is being explored, from 0."""


def generator(seed: int, level: int, index: int) -> random.Random:
    """Return the generator of one candidate: its own, so the others cannot matter."""
    digest = hashlib.blake2b(f"{seed}:{level}:{index}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))  # noqa: S311
