"""Conformance of searchers: what `Searcher` promises, checked without a task."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from optsmith.searchers import Candidate, Outcome, Searcher

BUDGET = 24


def check_searcher(make: Callable[[int, int], Searcher]) -> None:
    """Check that a searcher keeps its contract.

    Args:
        make: Makes one, given budget and seed.

    Raises:
        AssertionError: It does not; the message says how.
    """
    asked, decisions = _drive(make(BUDGET, 1), ahead=1)
    for ahead in (2, 7):
        again, decided = _drive(make(BUDGET, 1), ahead)
        assert asked == again, f"asking {ahead} ahead changes the candidates"
        assert decisions == decided, f"asking {ahead} ahead changes the decisions"
    assert len({c.id for c in asked}) == len(asked), "two candidates have the same id"
    other, _ = _drive(make(BUDGET, 2), ahead=1)
    assert [c.rule for c in asked] != [c.rule for c in other], "the seed changes nothing"


def _drive(searcher: Searcher, ahead: int) -> tuple[list[Candidate], list[object]]:
    """Run a searcher to its end, evaluating no more ahead than it needs; return what it asked."""
    told: list[Candidate] = []
    queue: list[Candidate] = []
    while True:
        while len(queue) < min(ahead, searcher.need):
            candidate = searcher.ask()
            if candidate is None:
                break
            queue.append(candidate)
        if not queue:
            assert searcher.ask() is None, "it asks on when it needs nothing"
            return told, [decision.to_json() for decision in searcher.decisions]
        candidate, level = queue.pop(0), searcher.level
        searcher.tell(candidate, _outcome(candidate))
        told.append(candidate)
        if searcher.level != level:
            assert not queue, "a level ends although evaluations that it needed are not told"


def _outcome(candidate: Candidate) -> Outcome:
    """Invent an outcome that depends on the rule alone."""
    digest = hashlib.blake2b(str(candidate.rule).encode(), digest_size=4).digest()
    kind = ("accepted", "accepted", "early_stopped", "failed")[digest[0] % 4]
    score = digest[1] / 256 if kind == "accepted" else None
    return Outcome(kind, key=digest.hex(), score=score)
