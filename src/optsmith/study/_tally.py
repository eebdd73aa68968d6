"""What a search has found so far: every draw in exactly one counter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from optsmith.evaluation import Evaluation, Status
from optsmith.searchers import Candidate, Outcome
from optsmith.study._ranking import ranked
from optsmith.task import Objective

ACCEPTED = "accepted"


@dataclass
class Tally:
    """Counts, and the evaluations in the order in which they were told.

    Attributes:
        objective: What is better.
        counts: Draws by what became of them; refused ones are counted by reason as well.
        refused: Refused draws by reason.
        evaluated: Every evaluation with its candidate.
    """

    objective: Objective
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    evaluated: list[tuple[Candidate, Evaluation]] = field(default_factory=list)

    def add(self, candidate: Candidate, outcome: Outcome) -> None:
        """Count a candidate that has been told."""
        self.counts[outcome.kind] += 1
        if outcome.reason:
            self.refused[outcome.reason] += 1
        if outcome.evaluated and outcome.evaluation is not None:
            self.evaluated.append((candidate, outcome.evaluation))

    @property
    def drawn(self) -> int:
        """Number of draws."""
        return sum(self.counts.values())

    def best(self, count: int) -> list[Evaluation]:
        """Return the best accepted evaluations, best first; see `ranked`."""
        entries = ((c.fidelity, c.lr, evaluation) for c, evaluation in self.evaluated)
        return ranked(entries, self.objective)[:count]

    def to_json(self) -> dict[str, Any]:
        """Return the counters as plain data."""
        kinds = ("duplicate", *(s.value for s in Status if s is not Status.OK))
        return {
            "drawn": self.drawn,
            ACCEPTED: self.counts[ACCEPTED],
            **{kind: self.counts[kind] for kind in kinds},
            "refused": dict(self.refused.most_common()),
        }
