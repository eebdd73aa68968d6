"""The path of one candidate: ask, screen, known?, evaluate, record, tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from optsmith.evaluation import Evaluation, Status
from optsmith.execution import Executor, Lost
from optsmith.rules import Rule
from optsmith.screening import Screening
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study._bench import lost_evaluation
from optsmith.study._observer import Observer
from optsmith.study._tally import ACCEPTED, Tally

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

    Candidates are evaluated side by side, in groups. To the bit, a score may depend on its company;
    so which candidates make a group follows from what has been told alone. They are begun as soon
    as they are surely needed, and the last ones in smaller groups, for workers to end together. A
    group of which a part is known from an earlier session is evaluated whole.

    Args:
        searcher: Proposes.
        screen: Refuses without training, and recognises.
        key: The fingerprint under which equal rules are known; an empty one tells all apart.
        executor: Evaluates jobs of the stage `search`.
        group: Candidates in a group, at most.
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
        group: int,
        known: Known,
        record: Record,
        tally: Tally,
        observer: Observer,
    ) -> None:
        self.searcher, self.screen, self.key = searcher, screen, key
        self.executor, self.group = executor, group
        self.known, self.record, self.tally, self.observer = known, record, tally, observer
        self._queue: deque[_Entry] = deque()
        self._running: dict[Hashable, list[_Entry]] = {}
        self._settled: dict[str, Outcome] = {}
        self._ahead: set[str] = set()  # keys of what is being evaluated
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
        while size := self._next_size():
            entries = self._next_group(size)
            if not entries:
                return
            self._begin(entries)

    def _next_size(self) -> int:
        """Return how many candidates the next group has; 0 when no more are surely needed."""
        sure, size = self.searcher.need - self._pending, self.group
        while size > 1 and sure <= size:
            size //= 2
        return min(size, sure)

    def _next_group(self, size: int) -> list[_Entry]:
        """Ask until so many candidates are to be evaluated, or there are no more."""
        entries: list[_Entry] = []
        while len(entries) < size and (candidate := self.searcher.ask()) is not None:
            entry = self._enter(candidate)
            self._queue.append(entry)
            if entry.is_evaluated:
                entries.append(entry)
                self._ahead.add(entry.key)
        return entries

    def _enter(self, candidate: Candidate) -> _Entry:
        screening = self._screenings.get(candidate.rule)
        if screening is None:
            screening = self._screenings[candidate.rule] = self.screen(candidate.rule)
        entry = _Entry(candidate, self.key(screening))
        if not screening.ok:
            entry.outcome = Outcome("refused", reason=screening.reason)
        elif entry.key and (entry.key in self._settled or entry.key in self._ahead):
            entry.duplicate = True
        return entry

    def _begin(self, entries: Sequence[_Entry]) -> None:
        self._pending += len(entries)
        known = [self.known(entry.candidate) for entry in entries]
        if None in known:
            self._submit(entries)
            return
        for entry, evaluation in zip(entries, known, strict=True):
            entry.evaluation = evaluation

    def _submit(self, entries: Sequence[_Entry]) -> None:
        key = entries[0].candidate.id
        self._running[key] = list(entries)
        self.executor.submit(key, ("search", [entry.candidate.rule for entry in entries]))

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
            self._ahead.discard(entry.key)
        self._pending -= entry.is_evaluated
        level = self.searcher.level
        self.searcher.tell(entry.candidate, outcome)
        self.tally.add(entry.candidate, outcome, entry.evaluation)
        self.observer.told(entry.candidate, outcome, entry.evaluation)
        if self.searcher.level != level:
            self._queue.clear()  # nothing in it was begun
            self._ahead.clear()
            self._pending = 0
            self.observer.decided(self.searcher.decisions[-1])

    def _collect(self) -> None:
        for key, result in self.executor.wait():
            entries = self._running.pop(key)
            if isinstance(result, Lost):
                self._lose(entries, result)
                continue
            for entry, evaluation in zip(entries, result, strict=True):
                self._settle(entry, evaluation)

    def _lose(self, entries: Sequence[_Entry], lost: Lost) -> None:
        """Find out which of a group it was that brought its worker down."""
        if len(entries) == 1:
            self._settle(entries[0], lost_evaluation(entries[0].candidate.rule, lost))
            return
        for entry in entries:
            self._submit([entry])

    def _settle(self, entry: _Entry, evaluation: Evaluation) -> None:
        entry.evaluation = self.known(entry.candidate)
        if entry.evaluation is None:
            entry.evaluation = evaluation
            self.record(entry.candidate, evaluation)
