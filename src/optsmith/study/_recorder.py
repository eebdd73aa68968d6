"""Persists a running search."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from optsmith._errors import StudyError
from optsmith.evaluation import Evaluation, Status
from optsmith.searchers import Candidate, Outcome, Searcher
from optsmith.storage import Record, Store
from optsmith.study._observer import Observer
from optsmith.study._study import final_key
from optsmith.study._tally import Tally

_STATES = {Status.OK: "ok", Status.EARLY_STOPPED: "pruned", Status.REJECTED: "pruned"}


class Recorder:
    """Makes evaluations durable, finds those that are, and tells an observer what happens.

    Args:
        store: The store.
        searcher: The search, for its summary.
        tally: Counts what is told.
        observer: Is told of everything.
    """

    def __init__(self, store: Store, searcher: Searcher, tally: Tally, observer: Observer) -> None:
        self.store, self.searcher, self.tally, self.observer = store, searcher, tally, observer
        self._known = {record.key: record for record in store.records()}
        self._compared: list[str] | None = None
        self._before = store.attrs.get("summary", {}).get("seconds", 0.0)
        self._start = time.perf_counter()

    @property
    def count(self) -> int:
        """How many evaluations the store had from the start."""
        return len(self._known)

    def known(self, candidate: Candidate) -> Evaluation | None:
        """Return the recorded evaluation of a candidate.

        Raises:
            StudyError: Something else was asked for under the same name.
        """
        record = self._known.get(candidate.key)
        if record is None:
            return None
        before = _asked(record.rule, record.block, record.fixed_lr)
        now = _asked(str(candidate.rule), candidate.block, candidate.lr)
        if before != now:
            raise StudyError(
                f"the study {self.store.name} cannot be continued: its candidate {candidate.id} was"
                f" {before}, and now the search asks for {now}, so the searcher or a library that"
                " it computes with has changed; use the versions and the kind of machine that"
                " began the study, or give another --study"
            )
        return Evaluation.from_json(record.data)

    def record(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Make an evaluation durable, without waiting for it."""
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
        """Count a candidate that has been told."""
        self.tally.add(candidate, outcome)
        self.observer.told(candidate, outcome)

    def noted(self, lines: Iterable[str]) -> None:
        """Keep what the search knows at each of its decisions, for reports on the way."""
        self.save()
        for line in lines:
            self.observer.noted(line)

    def without_final(self, recipes: Iterable[str]) -> list[str]:
        """Return the recipes that have no final evaluation yet."""
        there = self.store.attrs
        return [recipe for recipe in recipes if final_key(recipe) not in there]

    def record_final(self, evaluation: Evaluation) -> None:
        """Make a final evaluation durable."""
        self.store.set_attr(final_key(evaluation.recipe), evaluation.to_json())
        self.observer.compared(evaluation)

    def finish(self, compared: list[str]) -> None:
        """Note that the search got to its end, with these recipes compared."""
        self._compared = compared

    def save(self) -> None:
        """Write what only the search knows: its summary, and draws that were not trained."""
        self.store.flush()
        self.store.set_attr("summary", self._summary())

    def _summary(self) -> dict[str, Any]:
        return {
            "finished": self._compared is not None,
            "compared": self._compared,
            "seconds": self._before + time.perf_counter() - self._start,
            "counts": self.tally.to_json(),
            "searcher": self.searcher.summary(),
            "log": list(self.searcher.log),
            "evaluated": [list(candidate.key) for candidate, _ in self.tally.evaluated],
        }


def _asked(rule: str, block: int, lr: float | None) -> str:
    """Return in words what an evaluation is of."""
    rate = "" if lr is None else f" with learning rate {lr!r}"
    seeds = f" on block {block} of the seeds" if block else ""
    return f"{rule}{rate}{seeds}"
