"""Conformance suite for searchers: checks the contract of `Searcher` without a task."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from optsmith.evaluation import Evaluation, Status
from optsmith.searchers import Candidate, Outcome, Searcher

BUDGET = 24
MOST_CANDIDATES = 100_000
"""A searcher that asks for more candidates is considered endless."""

Verdict = Callable[[Candidate], str]
"""A function from a candidate to its result: `refused`, or the value of a status."""


def check_searcher(make: Callable[[int, int], Searcher]) -> None:
    """Check that a searcher fulfils the contract of `Searcher`.

    Args:
        make: Function that constructs a searcher, given budget and seed.

    Raises:
        AssertionError: It does not; the message says which part is violated.
    """
    usual = _Drive(make(BUDGET, 1))
    usual.run()
    assert usual.told, "ask returns no candidates"
    for n in (2, 7, 1000):
        ahead = _Drive(make(BUDGET, 1), n)
        ahead.run()
        assert ahead.told == usual.told, (
            f"asking for {n} candidates at a time changes the candidates"
        )
        assert ahead.state() == usual.state(), (
            f"asking for {n} candidates at a time changes the decisions"
        )
    keys = [candidate.key for candidate, _ in usual.told]
    assert len(set(keys)) == len(keys), "two candidates have the same id and fidelity"
    rules: dict[str, str] = {}
    for candidate, _ in usual.told:
        rule = rules.setdefault(candidate.id, str(candidate.rule))
        assert rule == str(candidate.rule), "two rules have the same id"
    assert "\n" not in usual.searcher.describe(), "describe returns more than one line"
    _check_replay(make, usual)
    _check_ends(make)


def _check_replay(make: Callable[[int, int], Searcher], usual: _Drive) -> None:
    """Check that an interrupted search can be resumed by a new searcher."""
    for told in (1, len(usual.told) // 2):
        interrupted = _Drive(make(BUDGET, 1), 7)
        interrupted.run(told)
        interrupted.cancel()
        assert interrupted.told == usual.told[:told], (
            "an interrupted search asks for other candidates"
        )
    resumed = _Drive(make(BUDGET, 1), 3)
    resumed.run()
    assert resumed.told == usual.told, "a replay asks for other candidates"
    assert resumed.state() == usual.state(), "a replay makes other decisions"


def _check_ends(make: Callable[[int, int], Searcher]) -> None:
    """Check that a search ends if no candidate is ever accepted."""
    for kind in ("refused", Status.FAILED.value, Status.TIMED_OUT.value):
        _Drive(make(BUDGET, 1), 7, lambda candidate, kind=kind: kind).run()  # type: ignore[misc]


def _by_rule(candidate: Candidate) -> str:
    """Return results of every kind, which depend only on rule and fidelity."""
    kinds = ("ok", "ok", "ok", "refused", "early_stopped", "diverged", "rejected", "failed")
    return kinds[_digest(candidate)[0] % len(kinds)]


def _digest(candidate: Candidate) -> bytes:
    text = f"{candidate.rule} {candidate.fidelity}"
    return hashlib.blake2b(text.encode(), digest_size=4).digest()


@dataclass
class _Drive:
    """Runs a searcher like a search: tells in order, starts no more evaluations than needed."""

    searcher: Searcher
    ahead: int = 1
    verdict: Verdict = _by_rule
    told: list[tuple[Candidate, Outcome]] = field(default_factory=list)
    queue: deque[tuple[Candidate, Outcome]] = field(default_factory=deque)
    equals: dict[tuple[str, float], Outcome] = field(default_factory=dict)
    pending: int = 0

    def run(self, most: int | None = None) -> None:
        while len(self.told) < (most or MOST_CANDIDATES):
            self._fill()
            if not self.queue:
                assert not self.searcher.ask(1), "ask returns candidates after the search is over"
                return
            candidate, outcome = self.queue.popleft()
            self.pending -= outcome.evaluated
            if self.searcher.obsolete(candidate):
                assert not outcome.evaluated, "an evaluation that was needed became obsolete"
                self.searcher.cancel(candidate)
                continue
            lines, before = list(self.searcher.log), self.searcher.done
            self.searcher.tell(candidate, outcome)
            self.told.append((candidate, outcome))
            after = self.searcher.done
            assert (after is None) == (before is None), "done is known at times only"
            if before is not None and after is not None:
                assert 0 <= before <= after <= 1, "done falls, or is not a fraction"
            assert self.searcher.log[: len(lines)] == lines, (
                "an earlier message of the log has changed"
            )
        assert most, "the search does not end"

    def cancel(self) -> None:
        for candidate, _ in self.queue:
            self.searcher.cancel(candidate)

    def state(self) -> tuple[str, list[str], str]:
        """Return the searcher's observable state."""
        summary = json.dumps(self.searcher.summary(), allow_nan=False)
        return summary, list(self.searcher.log), self.searcher.describe()

    def _fill(self) -> None:
        while (wanted := min(self.ahead, self.searcher.need) - self.pending) > 0:
            asked = self.searcher.ask(wanted)
            assert len(asked) <= wanted, "ask returns more candidates than were asked for"
            if not asked:
                return
            for candidate in asked:
                outcome = self._outcome(candidate)
                self.pending += outcome.evaluated
                self.queue.append((candidate, outcome))

    def _outcome(self, candidate: Candidate) -> Outcome:
        kind = self.verdict(candidate)
        if kind == "refused":
            return Outcome(kind, reason="refused by the conformance suite")
        key = str(candidate.rule)
        if (known := self.equals.get((key, candidate.fidelity))) is not None:
            return Outcome("duplicate", key, known.score, evaluation=known.evaluation)
        score = _digest(candidate)[1] / 256 if kind in ("ok", "rejected") else None
        evaluation = Evaluation(key, Status(kind), score=score, lr=candidate.lr or 0.1)
        accepted = evaluation.status is Status.OK
        outcome = Outcome(
            "accepted" if accepted else kind, key, score if accepted else None, "", evaluation
        )
        self.equals[key, candidate.fidelity] = outcome
        return outcome
