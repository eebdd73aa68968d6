"""A study: the result of a search, read from its store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from optsmith._errors import StudyError
from optsmith._stored import damaged, read
from optsmith.evaluation import Comparison, Evaluation, frame
from optsmith.storage import Record, Store
from optsmith.study._attributes import ABOUT, FINAL, SETTINGS, SUMMARY, About, Summary
from optsmith.study._finding import Finding
from optsmith.study._ranking import ranked
from optsmith.study._settings import Settings

K = TypeVar("K")
T = TypeVar("T")


def final_key(recipe: str) -> str:
    """Return the attribute that holds a recipe's final evaluation.

    It contains a hash, because databases limit the length of names.
    """
    return FINAL + hashlib.blake2b(recipe.encode(), digest_size=16).hexdigest()


class Study:
    """The durable record of a search; a snapshot of its store at the time of construction.

    Everything in the store is checked here, so that no other code has to.

    Args:
        store: The store, which may be closed afterwards.

    Raises:
        StudyError: There is no search in the store, or its data is damaged or inconsistent.
    """

    def __init__(self, store: Store) -> None:
        attrs = store.attrs
        if SETTINGS not in attrs:
            raise StudyError(f"the study {store.name} in {store.location} has no search in it yet")
        of = f"of the study {store.name} in {store.location}"
        self.name, self.location = store.name, store.location
        self._settings = Settings.from_json(attrs[SETTINGS], f'the attribute "{SETTINGS}" {of}')
        about = About.from_json(attrs.get(ABOUT), f'the attribute "{ABOUT}" {of}')
        self.settings: Mapping[str, Any] = attrs[SETTINGS]
        self.about: Mapping[str, Any] = about.to_json()
        self.summary: Mapping[str, Any] = attrs.get(SUMMARY, {})
        self.objective, self.metrics = about.objective, about.declared_metrics()
        records = store.records()
        evaluated = {record.key: _evaluation(record, of) for record in records}
        self._final = final_evaluations(attrs, of)
        if SUMMARY in attrs:
            where = f'the attribute "{SUMMARY}" {of}'
            summary = read(Summary, attrs[SUMMARY], where)
            if summary.finished:  # there may be others, which the search did not use in the end
                records = _selected({r.key: r for r in records}, summary.evaluated, where)
                chosen = _selected(self._final, summary.compared, where)
                self._final = {evaluation.recipe: evaluation for evaluation in chosen}
        self.records = records
        self._evaluations = [evaluated[record.key] for record in records]

    @classmethod
    def load(cls, name: str, storage: str | Path | None = None) -> Study:
        """Return an existing study; its search may still be running.

        Raises:
            StudyError: There is no study of that name, or it is damaged.
        """
        with Store.open(storage, name, create=False, read_only=True) as store:
            return cls(store)

    @property
    def finished(self) -> bool:
        """Whether the search reached its end."""
        return bool(self.summary.get("finished"))

    @property
    def peak_bytes(self) -> float | None:
        """Largest memory use of a process that evaluated; None if unknown."""
        every = [*self.evaluations, *self._final.values()]
        known = [e.peak_bytes for e in every if e.peak_bytes == e.peak_bytes]
        return max(known, default=None)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Every evaluation of a candidate, in order."""
        return list(self._evaluations)

    @overload
    def best(self) -> Finding: ...
    @overload
    def best(self, count: int) -> list[Finding]: ...
    def best(self, count: int | None = None) -> Finding | list[Finding]:
        """Return the winner, or the `count` best rules by search score.

        Only evaluations at the highest fidelity are ranked. If the final evaluation tunes learning
        rates at full length, the winner is the proposal with the best score in that tuning;
        otherwise it is the one with the best search score. Held-out scores are never used.

        Raises:
            StudyError: No rule was accepted.
        """
        pairs = zip(self.records, self._evaluations, strict=True)
        entries = [(record.fidelity, record.fixed_lr, found) for record, found in pairs]
        best = [Finding(e, self._final.get(e.recipe)) for e in ranked(entries, self.objective)]
        if count is not None:
            return best[:count]
        if not best:
            raise StudyError(f"the study {self.name} has not accepted any rule")
        terms = self._settings.search
        proposals = best[: terms.proposals]
        final = terms.protocol.final_stage
        # min takes the first of equals, so the search score decides between them.
        return min(proposals, key=self._tuning) if final.tune_steps == final.steps else best[0]

    def _tuning(self, finding: Finding) -> float:
        """Return the sort key of the score with which the final learning rate was chosen."""
        final = finding.held_out
        points = final.grid if final else ()
        chosen = (p.score for p in points if final and p.lr == final.lr and p.score is not None)
        return min(map(self.objective.key, chosen), default=float("inf"))

    @property
    def final(self) -> Comparison:
        """The proposals and the baselines at full length, on seeds that the search did not use."""
        return Comparison(self.objective, tuple(self._final.values()), self.metrics)

    @property
    def verdict(self) -> str:
        """One sentence on whether the winner beats the best baseline; empty before the end."""
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


def _evaluation(record: Record, of: str) -> Evaluation:
    what = f"the evaluation of candidate {record.candidate} {of}"
    found = Evaluation.from_json(record.data, what)
    if found.recipe != record.rule:
        raise damaged(what, f"it is of the rule {found.recipe}, not {record.rule}")
    return found


def final_evaluations(attrs: Mapping[str, Any], of: str) -> dict[str, Evaluation]:
    """Return the final evaluations among the attributes of a study, by recipe.

    Args:
        attrs: The attributes.
        of: Which study it is, for messages.

    Raises:
        StudyError: One is damaged.
    """
    found = {}
    for key, data in attrs.items():
        if key.startswith(FINAL):
            what = f'the attribute "{key}" {of}'
            evaluation = Evaluation.from_json(data, what)
            if final_key(evaluation.recipe) != key:
                raise damaged(what, f"it is not the place of {evaluation.recipe}")
            found[evaluation.recipe] = evaluation
    return found


def _selected(found: Mapping[K, T], keys: Sequence[K] | None, what: str) -> list[T]:
    """Return the named items in order."""
    if keys is None:
        raise damaged(what, "the search is finished, but nothing was compared")
    missing = [key for key in keys if key not in found]
    if missing:
        raise damaged(what, f"it names {missing[0]!r}, which is not in the study")
    return [found[key] for key in keys]
