"""The path of one candidate: ask, screen, known?, evaluate, record, tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from optsmith.evaluation import Evaluation, Status
from optsmith.execution import Executor
from optsmith.rules import Rule
from optsmith.screening import Screening
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study._bench import as_evaluation
from optsmith.study._observer import Observer
from optsmith.study._tally import ACCEPTED, Tally

AHEAD = 2
"""Evaluations queued for each worker, so that none waits for the coordinator."""

Known = Callable[[Candidate], Evaluation | None]
Record = Callable[[Candidate, Evaluation], None]
Key = Callable[[Screening], str]


@dataclass
class _Entry:
    """A candidate that was asked for and not yet told."""

    candidate: Candidate
    key: str
    outcome: Outcome | None = None  # known at once when refused
    duplicate: bool = False
    evaluation: Evaluation | None = None

    @property
    def is_evaluated(self) -> bool:
        """Whether an evaluation decides, be it one that is under way."""
        return self.outcome is None and not self.duplicate


class Runner:
    """Runs a search to its end.

    Candidates are told in the order in which they were asked, and no evaluation is begun that the
    searcher may not need; so the number of workers changes nothing but the time.

    Args:
        searcher: Proposes.
        screen: Refuses without training, and recognises.
        key: The fingerprint under which equal rules are known; an empty one tells all apart.
        executor: Evaluates jobs of the stage `search`.
        known: Returns the evaluation of a candidate when the study has it.
        record: Makes an evaluation durable.
        tally: Counts.
        observer: Is told of everything.
    """

    def __init__(
        self,
        searcher: Searcher,
        screen: Callable[..., Screening],
        key: Key,
        executor: Executor,
        known: Known,
        record: Record,
        tally: Tally,
        observer: Observer,
    ) -> None:
        self.searcher, self.screen, self.key, self.executor = searcher, screen, key, executor
        self.known, self.record, self.tally, self.observer = known, record, tally, observer
        self._queue: deque[_Entry] = deque()
        self._running: dict[Hashable, _Entry] = {}
        self._settled: dict[str, Outcome] = {}
        self._screenings: dict[Rule, Screening] = {}  # short rules are drawn again and again
        self._pending = 0  # evaluations that are not told yet, done or not

    def run(self) -> None:
        """Search until the searcher is done."""
        while True:
            self._fill()
            if not self._queue:
                return
            outcome = self._outcome(self._queue[0])
            if outcome is None:
                self._collect()
            else:
                self._tell(self._queue.popleft(), outcome)

    def _fill(self) -> None:
        """Ask for candidates and begin their evaluations, as far as they are surely needed."""
        while self._pending < min(self.searcher.need, AHEAD * self.executor.workers):
            candidate = self.searcher.ask()
            if candidate is None:
                return
            entry = self._enter(candidate)
            self._pending += entry.is_evaluated
            self._queue.append(entry)

    def _enter(self, candidate: Candidate) -> _Entry:
        screening = self._screenings.get(candidate.rule)
        if screening is None:
            screening = self._screenings[candidate.rule] = self.screen(candidate.rule)
        entry = _Entry(candidate, self.key(screening))
        if not screening.ok:
            entry.outcome = Outcome("refused", reason=screening.reason)
        elif entry.key and (entry.key in self._settled or self._is_ahead(entry.key)):
            entry.duplicate = True
        elif (evaluation := self.known(candidate)) is not None:
            entry.evaluation = evaluation
        else:
            self._running[candidate.id] = entry
            self.executor.submit(candidate.id, ("search", candidate.rule))
        return entry

    def _is_ahead(self, key: str) -> bool:
        return any(entry.key == key and entry.outcome is None for entry in self._queue)

    def _outcome(self, entry: _Entry) -> Outcome | None:
        """Return what became of the first of the queue; None while its evaluation runs."""
        if entry.outcome is not None:
            return entry.outcome
        if entry.duplicate:
            # What it equals was ahead of it, so that has been told by now.
            return Outcome("duplicate", entry.key, self._settled[entry.key].score)
        if entry.evaluation is None:
            return None
        if entry.evaluation.status is Status.OK:
            return Outcome(ACCEPTED, entry.key, entry.evaluation.score)
        return Outcome(entry.evaluation.status.value, entry.key)

    def _tell(self, entry: _Entry, outcome: Outcome) -> None:
        if entry.evaluation is not None and entry.key:
            self._settled[entry.key] = outcome
        self._pending -= entry.is_evaluated
        level = self.searcher.level
        self.searcher.tell(entry.candidate, outcome)
        self.tally.add(entry.candidate, outcome, entry.evaluation)
        self.observer.told(entry.candidate, outcome, entry.evaluation)
        if self.searcher.level != level:
            self._queue.clear()  # nothing in it was begun
            self._pending = 0
            self.observer.decided(self.searcher.decisions[-1])

    def _collect(self) -> None:
        for key, result in self.executor.wait():
            entry = self._running.pop(key)
            entry.evaluation = as_evaluation(entry.candidate.rule, result)
            self.record(entry.candidate, entry.evaluation)
