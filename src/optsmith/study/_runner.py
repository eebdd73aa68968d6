"""The path of one candidate: ask, screen, look up, evaluate, record, tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import islice

from optsmith.evaluation import Evaluation, Status
from optsmith.execution import Executor, Lost
from optsmith.rules import Rule
from optsmith.screening import Screening
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.study._context import SEARCH, Job, lost_evaluation
from optsmith.study._guard import Guard
from optsmith.study._recorder import Recorder
from optsmith.study._stop import Ending
from optsmith.study._tally import ACCEPTED

Setting = tuple[float, int, float | None]
"""Fidelity, block of seeds and fixed learning rate."""

Kind = tuple[float, int, bool]
"""Fidelity, block of seeds and whether learning rates are tuned, which are equal within a group."""

Key = tuple[str, Setting]
"""Fingerprint and setting: candidates that share them are duplicates."""

HELD_PER_WORKER = 2
"""Groups per worker that are handed to the executor at a time."""

MOST_AHEAD = 1024
"""Maximum number of evaluations that are started and not told yet."""


@dataclass
class _Entry:
    """A candidate that was asked for and neither told nor cancelled."""

    candidate: Candidate
    fingerprint: str
    outcome: Outcome | None = None  # set at once if the screen refused it
    duplicate: bool = False
    evaluation: Evaluation | None = None

    @property
    def setting(self) -> Setting:
        return self.candidate.fidelity, self.candidate.block, self.candidate.lr

    @property
    def kind(self) -> Kind:
        return self.candidate.fidelity, self.candidate.block, self.candidate.lr is None

    @property
    def key(self) -> Key | None:
        """The key that duplicates share; None if duplicates are not detected."""
        return (self.fingerprint, self.setting) if self.fingerprint else None

    @property
    def is_evaluated(self) -> bool:
        """Whether its outcome is that of its own evaluation, finished or not."""
        return self.outcome is None and not self.duplicate


class Runner:
    """Runs a search to its end.

    Candidates are told in the order in which they were asked, and an evaluation is started only if
    the searcher is certain to need it. So the number of workers affects only the time.

    Candidates are evaluated in groups. The rounding of a score may depend on the group, so groups
    depend only on the outcomes told so far. The last groups are smaller, so that workers finish at
    about the same time. A group that is recorded only in part is evaluated again as a whole.

    An error is recorded only once it is known to be the rule's, and not the task's. So a task can
    be corrected, and the same search resumed.

    Args:
        searcher: Proposes candidates.
        screen: Tests rules without training and computes their fingerprints.
        key: The fingerprint that duplicates share; if it is empty, duplicates are not detected.
        executor: Evaluates jobs of the stage `search`.
        group: Maximum number of candidates per group.
        recorder: Returns recorded evaluations, stores new ones, and is notified of progress.
        ending: Says whether the search ends before the searcher is done.
        guard: Stops the search if the task or the machine fails.

    Raises:
        TaskFailure: The task fails, not a rule.
        StudyError: The machine fails.
    """

    def __init__(
        self,
        searcher: Searcher,
        screen: Callable[[Rule], Screening],
        key: Callable[[Screening], str],
        executor: Executor,
        group: int,
        recorder: Recorder,
        ending: Ending | None = None,
        *,
        guard: Guard,
    ) -> None:
        self.searcher, self.screen, self.key = searcher, screen, key
        self.executor, self.group, self.recorder = executor, group, recorder
        self.ending, self.guard = ending, guard
        self._queue: deque[_Entry] = deque()
        self._held: deque[list[_Entry]] = deque()  # groups that wait for a worker
        self._running: dict[Hashable, list[_Entry]] = {}
        self._unsure: list[_Entry] = []  # errors of which it is not known whose they are
        self._settled: dict[Key, Outcome] = {}
        self._ahead: set[Key] = set()  # keys of candidates under evaluation
        self._screenings: dict[Rule, Screening] = {}  # short rules are drawn repeatedly
        self._pending = 0  # evaluations that are not told yet, finished or not
        self._said = 0  # lines of the searcher's log that were passed on

    def run(self) -> None:
        """Search until the searcher is done, or `ending` says so."""
        ending = self.ending or Ending()
        try:
            self._fill()
            self._note()
            while self._queue and not ending.reached():
                if self.searcher.obsolete(self._queue[0].candidate):
                    self._cancel(self._queue.popleft())
                elif (outcome := self._outcome(self._queue[0])) is not None:
                    self._judge(self._queue[0])
                    self._tell(self._queue.popleft(), outcome)
                elif ending.now(self._starting()):
                    break
                else:
                    self._collect()
                    continue
                self._fill()
            self._held.clear()
            while self._running:  # not empty if the search was ended; their results are recorded
                self._collect()
            self.guard.end()
        finally:
            for entry in self._queue:  # not empty if the search was ended or interrupted
                self.searcher.cancel(entry.candidate)

    # --- ask, screen, start ----------------------------------------------------------------------

    def _fill(self) -> None:
        """Ask for candidates that are certain to be needed, and start their evaluations."""
        while size := self._next_size():
            entries = self._next_group(size)
            if not entries:
                return
            self._begin(entries)

    def _next_size(self) -> int:
        """Return the size of the next group; 0 if no more candidates are certain to be needed."""
        batch = self.searcher.batch if self.group > 1 else 0
        sure, size = self.searcher.need - self._pending, batch or self.group
        while not batch and size > 1 and sure <= size:
            size //= 2
        return min(size, sure) if self._pending + size <= MOST_AHEAD else 0

    def _next_group(self, size: int) -> list[_Entry]:
        """Ask until `size` candidates are to be evaluated, or the searcher has no more."""
        entries: list[_Entry] = []
        while len(entries) < size and (asked := self.searcher.ask(size - len(entries))):
            for candidate in asked:
                entry = self._enter(candidate)
                self._queue.append(entry)
                if entry.is_evaluated:
                    entries.append(entry)
        return entries

    def _enter(self, candidate: Candidate) -> _Entry:
        screening = self._screenings.get(candidate.rule)
        if screening is None:
            screening = self._screenings[candidate.rule] = self.screen(candidate.rule)
        entry = _Entry(candidate, self.key(screening))
        if not screening.ok:
            entry.outcome = Outcome("refused", reason=screening.reason)
        elif entry.key is not None and (entry.key in self._settled or entry.key in self._ahead):
            entry.duplicate = True
        elif entry.key is not None:
            self._ahead.add(entry.key)
        return entry

    def _begin(self, entries: Sequence[_Entry]) -> None:
        self._pending += len(entries)
        alike: dict[Kind, list[_Entry]] = {}
        for entry in entries:
            alike.setdefault(entry.kind, []).append(entry)
        for group in alike.values():
            known = [self.recorder.known(entry.candidate) for entry in group]
            if None in known:
                self._submit(group)
                continue
            for entry, evaluation in zip(group, known, strict=True):
                entry.evaluation = evaluation

    def _submit(self, entries: Sequence[_Entry]) -> None:
        self._held.append(list(entries))

    @property
    def _most_running(self) -> int:
        return HELD_PER_WORKER * max(1, self.executor.workers)

    def _starting(self) -> list[int]:
        """Return the sizes of the groups that are started next; none while others run."""
        if self._running:
            return []
        return [len(group) for group in islice(self._held, self._most_running)]

    def _feed(self) -> None:
        """Hand groups to the executor, as few as keep it busy, so that a search can end soon."""
        while self._held and len(self._running) < self._most_running:
            entries = self._held.popleft()
            key = entries[0].candidate.key
            self._running[key] = entries
            rules = tuple(str(entry.candidate.rule) for entry in entries)
            lrs = tuple(entry.candidate.lr for entry in entries)
            fidelity, block, _ = entries[0].kind
            self.executor.submit(key, Job(SEARCH, rules, fidelity, block, lrs))

    # --- collect, record -------------------------------------------------------------------------

    def _collect(self) -> None:
        self._feed()
        for key, result in self.executor.wait():
            entries = self._running.pop(key)
            if isinstance(result, Lost):
                self._lose(entries, result)
                continue
            for entry, evaluation in zip(entries, result, strict=True):
                self._settle(entry, evaluation)

    def _lose(self, entries: Sequence[_Entry], lost: Lost) -> None:
        """Record a lost candidate, or evaluate a lost group again, one candidate per job."""
        if len(entries) == 1:
            self._settle(entries[0], lost_evaluation(str(entries[0].candidate.rule), lost))
            return
        for entry in entries:
            self._submit([entry])

    def _settle(self, entry: _Entry, evaluation: Evaluation) -> None:
        entry.evaluation = self.recorder.known(entry.candidate)
        if entry.evaluation is None:
            entry.evaluation = evaluation
            if evaluation.status is Status.FAILED:
                self._unsure.append(entry)
            else:
                self.recorder.record(entry.candidate, evaluation)

    def _judge(self, entry: _Entry) -> None:
        """Stop if the task or the machine fails; record errors that are known to be a rule's."""
        if entry.evaluation is not None:
            self.guard.check(entry.evaluation)
        unsure, self._unsure = self._unsure, []
        for entry in unsure:
            if entry.evaluation is not None and self.guard.blames_rule(entry.evaluation):
                self.recorder.record(entry.candidate, entry.evaluation)
            else:
                self._unsure.append(entry)

    # --- tell or cancel --------------------------------------------------------------------------

    def _outcome(self, entry: _Entry) -> Outcome | None:
        """Return the outcome of an entry; None while its evaluation runs."""
        if entry.outcome is not None:
            return entry.outcome
        if entry.duplicate and entry.key is not None:
            # The candidate that it equals was asked earlier, so it has been told.
            equal = self._settled[entry.key]
            return Outcome("duplicate", equal.key, equal.score, evaluation=equal.evaluation)
        found = entry.evaluation
        if found is None:
            return None
        accepted = found.status is Status.OK
        kind, score = (ACCEPTED, found.score) if accepted else (found.status.value, None)
        return Outcome(kind, entry.fingerprint, score, evaluation=found)

    def _tell(self, entry: _Entry, outcome: Outcome) -> None:
        if entry.is_evaluated:
            self._pending -= 1
            if entry.key is not None:
                self._settled[entry.key] = outcome
                self._ahead.discard(entry.key)
        self.searcher.tell(entry.candidate, outcome)
        self.recorder.told(entry.candidate, outcome)
        self._note()

    def _note(self) -> None:
        """Pass on what the searcher has said since the last time."""
        if lines := self.searcher.log[self._said :]:
            self._said += len(lines)
            self.recorder.noted(lines)

    def _cancel(self, entry: _Entry) -> None:
        self.searcher.cancel(entry.candidate)
        if not entry.is_evaluated:
            return
        self._pending -= 1
        if entry.key is None:
            return
        self._ahead.discard(entry.key)
        # Its result is recorded but not told, so the next duplicate is evaluated instead.
        duplicates = (e for e in self._queue if e.duplicate and e.key == entry.key)
        if (heir := next(duplicates, None)) is not None:
            heir.duplicate = False
            self._ahead.add(entry.key)
            self._begin([heir])
