"""A study: what a search found, read from its store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from optsmith._errors import StudyError
from optsmith.evaluation import Comparison, Evaluation, frame
from optsmith.storage import Record, Store
from optsmith.study._ranking import ranked
from optsmith.task import Objective, metrics_from_json

_FINAL = "final:"


def final_key(recipe: str) -> str:
    """Return the attribute that holds a recipe's final evaluation.

    By hash: a database has no room for long names.
    """
    return _FINAL + hashlib.blake2b(recipe.encode(), digest_size=16).hexdigest()


class Study:
    """The durable record of a search; a snapshot of what its store holds when it is made.

    Args:
        store: The store, which may be closed afterwards.
    """

    def __init__(self, store: Store) -> None:
        attrs = store.attrs
        if "settings" not in attrs:
            raise StudyError(f"the study {store.name} in {store.location} has no search in it yet")
        self.name, self.location = store.name, store.location
        self.settings: Mapping[str, Any] = attrs["settings"]
        self.about: Mapping[str, Any] = attrs["about"]
        self.summary: Mapping[str, Any] = attrs.get("summary", {})
        self.objective = Objective(**self.about["objective"])
        self.metrics = metrics_from_json(self.about.get("metrics", {}))
        self.records = _told(store.records(), self.summary)
        finals = [Evaluation.from_json(v) for k, v in attrs.items() if k.startswith(_FINAL)]
        self._final = {evaluation.recipe: evaluation for evaluation in finals}
        if self.finished:  # a search that was given more budget may have had other proposals
            self._final = {name: self._final[name] for name in self.summary["compared"]}

    @classmethod
    def load(cls, name: str, storage: str | Path | None = None) -> Study:
        """Return a study that exists, also while its search is running.

        Raises:
            StudyError: There is none of that name there.
        """
        with Store.open(storage, name, create=False, read_only=True) as store:
            return cls(store)

    @property
    def finished(self) -> bool:
        """Whether the search got to its end."""
        return bool(self.summary.get("finished"))

    @property
    def peak_bytes(self) -> float | None:
        """Memory that a process which evaluated took at most; None when that is not known."""
        every = [*self.evaluations, *self._final.values()]
        known = [e.peak_bytes for e in every if e.peak_bytes == e.peak_bytes]
        return max(known, default=None)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Every evaluation of a candidate, in order."""
        return [Evaluation.from_json(record.data) for record in self.records]

    @overload
    def best(self) -> Evaluation: ...
    @overload
    def best(self, count: int) -> list[Evaluation]: ...
    def best(self, count: int | None = None) -> Evaluation | list[Evaluation]:
        """Return the winner, or the `count` best by the score of the search.

        Only evaluations at the highest fidelity are compared. The winner is chosen among the best
        by the run that tuned its learning rate at full length, where there is one: never by what is
        reported of it.

        Raises:
            StudyError: No rule was accepted.
        """
        entries = [(r.fidelity, r.fixed_lr, Evaluation.from_json(r.data)) for r in self.records]
        best = ranked(entries, self.objective)
        if count is not None:
            return best[:count]
        if not best:
            raise StudyError(f"the study {self.name} has not accepted any rule")
        return self._winner(best[: self.settings["proposals"]])

    def _winner(self, best: list[Evaluation]) -> Evaluation:
        protocol = self.settings["protocol"]
        if protocol["tune_steps"] != protocol["final_steps"]:
            return best[0]
        tuned = [(self._tuning_score(e), place, e) for place, e in enumerate(best)]
        return min(tuned, key=lambda item: item[:2])[2]

    def _tuning_score(self, evaluation: Evaluation) -> float:
        final = self._final.get(evaluation.recipe)
        points = [p.score for p in final.grid if p.score is not None] if final else []
        return min(map(self.objective.key, points), default=float("inf"))

    @property
    def final(self) -> Comparison:
        """The best rules beside the baselines, at full length, on seeds the search never saw."""
        return Comparison(self.objective, tuple(self._final.values()), self.metrics)

    def held_out(self, evaluation: Evaluation) -> Evaluation | None:
        """Return the final evaluation of a rule that the search proposed, if it has one."""
        return self._final.get(evaluation.recipe)

    @property
    def verdict(self) -> str:
        """Whether the winner beats the best baseline, in a sentence; empty before the end."""
        return self.final.verdict(self.best().recipe) if self.best(1) else ""

    def table(self) -> Any:
        """Return every evaluation as a pandas DataFrame."""
        return frame([row(record) for record in self.records])

    def __repr__(self) -> str:
        state = "finished" if self.finished else "unfinished"
        return f"<Study {self.name}: {len(self.records)} evaluations, {state}>"


def row(record: Record) -> dict[str, Any]:
    """Return a record as one flat row of a table."""
    data = record.data
    return {
        "candidate": record.candidate,
        "phase": record.phase,
        "fidelity": record.fidelity,
        "rule": record.rule,
        "length": record.length,
        "status": data["status"],
        "score": data["score"],
        "lr": data["lr"],
        "at_edge": data["at_edge"],
        "seconds": data["seconds"],
        "error": data["error"],
    }


def _told(records: list[Record], summary: Mapping[str, Any]) -> list[Record]:
    """Return the records that the search used, in its order.

    A search that was killed has no full list of them; then all count.
    """
    if not summary.get("finished"):
        return records
    found = {record.key: record for record in records}
    return [found[candidate, fidelity] for candidate, fidelity in summary["evaluated"]]
