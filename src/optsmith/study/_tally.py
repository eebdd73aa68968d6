"""Counts of a search so far; each draw is in exactly one counter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsmith.evaluation import Evaluation, Status
from optsmith.searchers import Candidate, Outcome
from optsmith.study._ranking import ranked
from optsmith.task import Objective

ACCEPTED = "accepted"


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Number of draws by outcome.

    Attributes:
        drawn: All draws.
        accepted: Evaluated, with a score better than the threshold.
        duplicate: Equal to a rule that was evaluated before.
        rejected: Evaluated, with a score that is not better than the threshold.
        early_stopped: Evaluated, and stopped early at every learning rate.
        diverged: Evaluated, without a finite score.
        failed: Evaluated, and ended by an error.
        timed_out: Evaluated, and ended by the time limit.
        lost: Not evaluated, because the machine failed: a process died, or there was no memory.
        refused: Refused by the screen, by reason.
    """

    drawn: int
    accepted: int
    duplicate: int
    rejected: int
    early_stopped: int
    diverged: int
    failed: int
    timed_out: int
    refused: Mapping[str, int]
    lost: int = 0


@dataclass
class Tally:
    """Counters, and the evaluations in the order in which they were told.

    Attributes:
        objective: The objective of the search.
        counts: Draws by outcome.
        refused: Refused draws by reason.
        evaluated: Every evaluation with its candidate, except those that were lost.
        trained: Training steps of all of them.
    """

    objective: Objective
    counts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    evaluated: list[tuple[Candidate, Evaluation]] = field(default_factory=list)
    trained: int = 0

    def add(self, candidate: Candidate, outcome: Outcome) -> None:
        """Count a candidate that has been told."""
        self.counts[outcome.kind] += 1
        if outcome.reason:
            self.refused[outcome.reason] += 1
        if outcome.evaluation is not None and outcome.evaluated and outcome.kind != Status.LOST:
            self.evaluated.append((candidate, outcome.evaluation))
            self.trained += outcome.evaluation.trained

    @property
    def drawn(self) -> int:
        """Number of draws."""
        return sum(self.counts.values())

    def best(self, count: int) -> list[Evaluation]:
        """Return the best accepted evaluations, best first; see `ranked`."""
        entries = ((c.fidelity, c.lr, evaluation) for c, evaluation in self.evaluated)
        return ranked(entries, self.objective)[:count]

    def total(self) -> Counts:
        """Return the counters as data."""
        kinds = (ACCEPTED, "duplicate", *(s.value for s in Status if s is not Status.OK))
        refused = dict(self.refused.most_common())
        return Counts(drawn=self.drawn, refused=refused, **{k: self.counts[k] for k in kinds})
