"""Between a running search and its store."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from optsmith.evaluation import Evaluation, Status
from optsmith.optim import Recipe
from optsmith.searchers import Candidate, Decision, Outcome, Searcher
from optsmith.storage._store import Record, Store
from optsmith.study._observer import Observer
from optsmith.study._study import final_key
from optsmith.study._tally import Tally

_STATES = {Status.OK: "ok", Status.EARLY_STOPPED: "pruned", Status.REJECTED: "pruned"}


class Recorder(Observer):
    """Makes evaluations durable, and finds those that are.

    Args:
        store: The store.
        searcher: The search, for its decisions.
        tally: Its counts.
        observer: Is told what this one is told.
    """

    def __init__(self, store: Store, searcher: Searcher, tally: Tally, observer: Observer) -> None:
        self.store, self.searcher, self.tally, self.observer = store, searcher, tally, observer
        self._known = {(r.candidate, r.rule): r for r in store.records()}
        self._compared: list[str] | None = None
        self._before = store.attrs.get("summary", {}).get("seconds", 0.0)
        self._start = time.perf_counter()

    @property
    def count(self) -> int:
        """How many evaluations the store had from the start."""
        return len(self._known)

    def known(self, candidate: Candidate) -> Evaluation | None:
        """Return the recorded evaluation of a candidate."""
        record = self._known.get((candidate.id, str(candidate.rule)))
        return None if record is None else Evaluation.from_json(record.data)

    def record(self, candidate: Candidate, evaluation: Evaluation) -> None:
        """Make an evaluation durable, without waiting for it."""
        self.store.add(
            Record(
                candidate=candidate.id,
                rule=str(candidate.rule),
                state=_STATES.get(evaluation.status, "failed"),  # type: ignore[arg-type]
                score=evaluation.score,
                lr=evaluation.lr,
                length=candidate.rule.length,
                curve=evaluation.curve,
                data=evaluation.to_json(),
            )
        )

    def without_final(self, recipes: Iterable[Recipe]) -> list[Recipe]:
        """Return the recipes that have no evaluation of the end yet."""
        there = self.store.attrs
        return [recipe for recipe in recipes if final_key(str(recipe)) not in there]

    def record_final(self, evaluation: Evaluation) -> None:
        """Make an evaluation of the end durable."""
        self.store.set_attr(final_key(evaluation.recipe), evaluation.to_json())
        self.observer.compared(evaluation)

    def told(self, candidate: Candidate, outcome: Outcome, evaluation: Evaluation | None) -> None:
        """Pass it on."""
        self.observer.told(candidate, outcome, evaluation)

    def decided(self, decision: Decision) -> None:
        """Keep what the search knows at the end of each level, for reports on the way."""
        self.save()
        self.observer.decided(decision)

    def finish(self, compared: list[str]) -> None:
        """Note that the search got to its end, with these recipes compared."""
        self._compared = compared

    def save(self) -> None:
        """Write what only the search knows: decisions, and draws that were not trained."""
        self.store.flush()
        self.store.set_attr("summary", self._summary())

    def _summary(self) -> dict[str, Any]:
        return {
            "finished": self._compared is not None,
            "compared": self._compared,
            "seconds": self._before + time.perf_counter() - self._start,
            "counts": self.tally.to_json(),
            "decisions": [decision.to_json() for decision in self.searcher.decisions],
            "evaluated": [[*c.id, str(c.rule)] for c, _ in self.tally.evaluated],
        }
