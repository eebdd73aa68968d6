"""Persists a running search."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from optsmith._errors import StudyError
from optsmith._stored import plain, read
from optsmith.evaluation import Evaluation, Status
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.storage import Record, Store
from optsmith.study._attributes import CLAIM, RACED, SUMMARY, Summary
from optsmith.study._clock import Clock
from optsmith.study._contest import Result
from optsmith.study._context import SEARCH
from optsmith.study._forecast import Forecast
from optsmith.study._ledger import Entry
from optsmith.study._observer import Observer
from optsmith.study._race import Raced
from optsmith.study._reading import final_key
from optsmith.study._tally import Tally

SAVE_SECONDS = 10.0
"""Time between summaries."""

LOST = "lost"
"""Attribute with the candidates whose evaluations were lost."""

_STATES = {Status.OK: "ok", Status.EARLY_STOPPED: "pruned", Status.REJECTED: "pruned"}


@dataclass(frozen=True)
class _LostKeys:
    keys: tuple[tuple[str, float], ...]


class Recorder:
    """Stores evaluations, returns stored ones, and notifies an observer.

    Args:
        store: The store, whose data has been checked.
        searcher: The searcher, for its summary.
        tally: Counts the outcomes.
        observer: Is notified of progress.
        clock: The time of the study.
        forecast: Estimates the time left.
    """

    def __init__(
        self,
        store: Store,
        searcher: Searcher,
        tally: Tally,
        observer: Observer,
        clock: Clock,
        forecast: Forecast,
    ) -> None:
        self.store, self.searcher, self.tally, self.observer = store, searcher, tally, observer
        self._known = {record.key: record for record in store.records()}
        self._lost = lost_keys(store)
        self._was_disturbed = bool(self._lost)
        self._was_finished = bool(store.attrs.get(SUMMARY, {}).get("finished"))
        self._compared: list[str] | None = None
        self._changed = False
        self.clock, self.forecast = clock, forecast
        self._saved = time.monotonic()

    @property
    def count(self) -> int:
        """Number of evaluations that the store had at the start."""
        return len(self._known)

    def known(self, candidate: Candidate) -> Evaluation | None:
        """Return the stored evaluation of a candidate; None if there is none.

        An evaluation that was lost is done again, unless the study is finished. If it has a score
        this time, the search goes on as if it had never been lost: the searcher may then ask for
        other candidates than before, and those that are not stored are evaluated. So the study
        becomes that of an undisturbed search.

        Raises:
            StudyError: The stored candidate of that name is another rule, learning rate or block.
        """
        record = self._known.get(candidate.key)
        if record is None:
            is_lost = self._was_finished and candidate.key in self._lost
            return Evaluation(str(candidate.rule), Status.LOST) if is_lost else None
        before = _asked(record.rule, record.block, record.fixed_lr)
        now = _asked(str(candidate.rule), candidate.block, candidate.lr)
        if before != now and self._was_disturbed:
            return None
        if before != now:
            raise StudyError(
                f"the study {self.store.name} cannot be resumed: its candidate {candidate.id} was"
                f" {before}, but now the search asks for {now}, so the searcher or a library that"
                " it uses has changed; use the versions and the kind of machine that"
                " created the study, or give another --study"
            )
        return Evaluation.from_json(record.data)

    def record(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Store an evaluation, without waiting until it is written.

        Of one that was lost, only the name of the candidate is stored.
        """
        self._changed = True
        if evaluation.status is Status.LOST:
            self._lost.add(candidate.key)
            self.store.set_attr(LOST, sorted(self._lost))
            return
        self.store.add(
            Record(
                candidate=candidate.id,
                rule=str(candidate.rule),
                fidelity=candidate.fidelity,
                block=candidate.block,
                fixed_lr=candidate.lr,
                phase=candidate.phase,
                state=_STATES.get(evaluation.status, "failed"),  # type: ignore[arg-type]
                score=evaluation.score,
                lr=evaluation.lr,
                length=candidate.rule.length,
                curve=evaluation.curve,
                data=evaluation.to_json(),
            )
        )

    def told(self, candidate: Candidate, outcome: Outcome) -> None:
        """Count the outcome of a candidate."""
        self.tally.add(candidate, outcome)
        self.forecast.progress(self.searcher.done, self.searcher.varied_left)
        if outcome.evaluated and outcome.evaluation is not None:
            self.forecast.add(SEARCH, outcome.evaluation, time.monotonic(), varied=candidate.varied)
        self.observer.told(candidate, outcome)
        self._save_sometimes()

    def skip(self, phase: str) -> None:
        """Count a phase as over."""
        self.forecast.skip(phase)

    def noted(self, lines: Iterable[str]) -> None:
        """Store the summary at a decision of the searcher, for reports of running searches."""
        self.save()
        for line in lines:
            self.observer.noted(line)

    def begun(self, phase: str, jobs: Sequence[Sequence[Entry]]) -> None:
        """Notify that jobs outside the search are started."""
        self.forecast.begin(phase, jobs, time.monotonic())

    def evaluated(self, phase: str, evaluation: Evaluation) -> None:
        """Notify that an evaluation outside the search is done."""
        self._changed = True
        self.forecast.add(phase, evaluation, time.monotonic())
        self.observer.evaluated(phase, evaluation)
        self._save_sometimes()

    def finish(self, result: Result, raced: Sequence[Raced]) -> None:
        """Store the comparison, and mark the study as finished."""
        self.store.set_attr(RACED, plain(raced))
        for row in result.rows:
            self.store.set_attr(final_key(row.recipe), row.to_json())
        self.store.set_attr(CLAIM, plain(result.claim))
        self._compared = [row.recipe for row in result.rows]

    def _save_sometimes(self) -> None:
        """Store the summary if it is old, so that a kill loses little of the counted time."""
        if self._changed and time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Store the summary of the search, unless this process has only replayed a part of it."""
        if self._known and not self._changed and self._compared is None:
            return
        summary = Summary(
            finished=self._compared is not None,
            compared=None if self._compared is None else tuple(self._compared),
            seconds=self.clock.seconds(),
            counts=self.tally.total(),
            searcher=self.searcher.summary(),
            log=tuple(self.searcher.log),
            evaluated=tuple(candidate.key for candidate, _ in self.tally.evaluated),
        )
        self.store.flush()
        self.store.set_attr(SUMMARY, asdict(summary))
        self._saved = time.monotonic()


def lost_keys(store: Store) -> set[tuple[str, float]]:
    """Return the candidates whose evaluations were lost, at any time.

    Raises:
        StudyError: The data is damaged.
    """
    found = store.attrs.get(LOST, [])
    what = f'the attribute "{LOST}" of the study {store.name} in {store.location}'
    return set(read(_LostKeys, {"keys": found}, what).keys)


def _asked(rule: str, block: int, lr: float | None) -> str:
    """Return a description of an evaluation."""
    rate = "" if lr is None else f" with learning rate {lr!r}"
    seeds = f" on block {block} of the seeds" if block else ""
    return f"{rule}{rate}{seeds}"
