"""Persists a running search."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict

from optsmith._errors import StudyError
from optsmith.evaluation import Evaluation, Status
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.storage import Record, Store
from optsmith.study._attributes import SUMMARY, Summary
from optsmith.study._observer import Observer
from optsmith.study._study import final_key
from optsmith.study._tally import Tally

_STATES = {Status.OK: "ok", Status.EARLY_STOPPED: "pruned", Status.REJECTED: "pruned"}


class Recorder:
    """Stores evaluations, returns stored ones, and notifies an observer.

    Args:
        store: The store, whose data has been checked.
        searcher: The searcher, for its summary.
        tally: Counts the outcomes.
        observer: Is notified of progress.
    """

    def __init__(self, store: Store, searcher: Searcher, tally: Tally, observer: Observer) -> None:
        self.store, self.searcher, self.tally, self.observer = store, searcher, tally, observer
        self._known = {record.key: record for record in store.records()}
        self._compared: list[str] | None = None
        self._changed = False
        self._before = store.attrs.get(SUMMARY, {}).get("seconds") or 0.0
        self._start = time.perf_counter()

    @property
    def count(self) -> int:
        """Number of evaluations that the store had at the start."""
        return len(self._known)

    def known(self, candidate: Candidate) -> Evaluation | None:
        """Return the stored evaluation of a candidate; None if there is none.

        Raises:
            StudyError: The stored candidate of that name is another rule, learning rate or block.
        """
        record = self._known.get(candidate.key)
        if record is None:
            return None
        before = _asked(record.rule, record.block, record.fixed_lr)
        now = _asked(str(candidate.rule), candidate.block, candidate.lr)
        if before != now:
            raise StudyError(
                f"the study {self.store.name} cannot be resumed: its candidate {candidate.id} was"
                f" {before}, but now the search asks for {now}, so the searcher or a library that"
                " it uses has changed; use the versions and the kind of machine that"
                " created the study, or give another --study"
            )
        return Evaluation.from_json(record.data)

    def record(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Store an evaluation, without waiting until it is written."""
        self._changed = True
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
        self.observer.told(candidate, outcome)

    def noted(self, lines: Iterable[str]) -> None:
        """Store the summary at a decision of the searcher, for reports of running searches."""
        self.save()
        for line in lines:
            self.observer.noted(line)

    def without_final(self, recipes: Iterable[str]) -> list[str]:
        """Return the recipes that have no final evaluation yet."""
        there = self.store.attrs
        return [recipe for recipe in recipes if final_key(recipe) not in there]

    def record_final(self, evaluation: Evaluation) -> None:
        """Store a final evaluation."""
        self._changed = True
        self.store.set_attr(final_key(evaluation.recipe), evaluation.to_json())
        self.observer.compared(evaluation)

    def finish(self, compared: list[str]) -> None:
        """Mark the search as finished, with these recipes compared."""
        self._compared = compared

    def save(self) -> None:
        """Store the summary of the search, unless this process has only replayed a part of it."""
        if self._known and not self._changed and self._compared is None:
            return
        summary = Summary(
            finished=self._compared is not None,
            compared=None if self._compared is None else tuple(self._compared),
            seconds=self._before + time.perf_counter() - self._start,
            counts=self.tally.total(),
            searcher=self.searcher.summary(),
            log=tuple(self.searcher.log),
            evaluated=tuple(candidate.key for candidate, _ in self.tally.evaluated),
        )
        self.store.flush()
        self.store.set_attr(SUMMARY, asdict(summary))


def _asked(rule: str, block: int, lr: float | None) -> str:
    """Return a description of an evaluation."""
    rate = "" if lr is None else f" with learning rate {lr!r}"
    seeds = f" on block {block} of the seeds" if block else ""
    return f"{rule}{rate}{seeds}"
