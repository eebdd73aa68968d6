"""A study: the result of a search, read from its store."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from optsmith._errors import StudyError
from optsmith._stored import read
from optsmith.evaluation import Comparison, Evaluation, frame, named_or, shown
from optsmith.optim import is_baseline
from optsmith.storage import Record, Store
from optsmith.study._attributes import (
    ABOUT,
    SETTINGS,
    SUMMARY,
    About,
    Summary,
)
from optsmith.study._compare import StudyComparison, compare_studies
from optsmith.study._finding import Finding
from optsmith.study._known import without_known
from optsmith.study._ledger import ledger_evaluations
from optsmith.study._ranking import ranked
from optsmith.study._reading import (
    evaluation_of,
    final_evaluations,
    selected,
    stored_claim,
    stored_raced,
)
from optsmith.study._settings import Settings


class Study:
    """The durable record of a search; a snapshot of its store at the time of construction.

    Everything in the store is checked here, so that no other code has to.

    Args:
        store: The store, which may be closed afterwards.

    Attributes:
        claim: What the study claims about its best rule; None before the end.
        raced: Opponents that left the race before the final comparison.

    Raises:
        StudyError: There is no search in the store, or its data is damaged or inconsistent.
    """

    def __init__(self, store: Store) -> None:
        attrs = store.attrs
        if SETTINGS not in attrs:
            raise StudyError(f"the study {store.name} in {store.location} has no search in it yet")
        of = f"of the study {store.name} in {store.location}"
        self.name, self.location = store.name, store.location
        self.stored_settings = Settings.from_json(
            attrs[SETTINGS], f'the attribute "{SETTINGS}" {of}'
        )
        about = About.from_json(attrs.get(ABOUT), f'the attribute "{ABOUT}" {of}')
        self.settings: Mapping[str, Any] = attrs[SETTINGS]
        self.about: Mapping[str, Any] = about.to_json()
        self.summary: Mapping[str, Any] = attrs.get(SUMMARY, {})
        self.objective, self.metrics = about.objective, about.declared_metrics()
        records = store.records()
        evaluated = {record.key: evaluation_of(record, of) for record in records}
        self._final = final_evaluations(attrs, of)
        self.claim = stored_claim(attrs, of)
        self.raced = stored_raced(attrs, of)
        ledger_evaluations(attrs, of)
        if SUMMARY in attrs:
            where = f'the attribute "{SUMMARY}" {of}'
            summary = read(Summary, attrs[SUMMARY], where)
            if summary.finished:  # there may be others, which the search did not use in the end
                records = selected({r.key: r for r in records}, summary.evaluated, where)
                chosen = selected(self._final, summary.compared, where)
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

        Only evaluations at the highest fidelity are ranked. The winner of a finished study is the
        proposal that was chosen on selection seeds; before, the rule with the best search score
        that is not a known optimizer, if there is one. Scores on report seeds are never used.

        Raises:
            StudyError: No rule was accepted.
        """
        pairs = zip(self.records, self._evaluations, strict=True)
        entries = [(record.fidelity, record.fixed_lr, found) for record, found in pairs]
        candidates = ranked(entries, self.objective)
        known = {e.recipe for e in candidates}
        # Shorter forms and centres of a search are compared without having been candidates.
        compared = (e for e in self._final.values() if not is_baseline(e.recipe))
        made = [_on_selection_seeds(e) for e in compared if e.recipe not in known]
        best = [Finding(e, self._final.get(e.recipe)) for e in [*made, *candidates]]
        if count is not None:
            return best[:count]
        if not best:
            raise StudyError(f"the study {self.name} has not accepted any rule")
        if self.claim is not None:
            return self.finding(self.claim.rule)
        if not self.stored_settings.search.proposes_known:
            unknown = {e.recipe for e in without_known(finding.search for finding in best)}
            best = [finding for finding in best if finding.recipe in unknown]
        # min takes the first of equals, so the search score decides between them.
        return min(best, key=self._selection)

    @property
    def recommended(self) -> Finding:
        """The recipe to use: a rule or an opponent, as the claim says; without one, the best rule.

        If no rule was accepted, it is the best opponent.

        Raises:
            StudyError: There is neither a rule nor an opponent.
        """
        if self.claim is not None:
            return self.finding(self.claim.recommended)
        opponent = self.final.best_baseline
        if opponent is not None and not self.best(1):
            return self.finding(opponent.recipe)
        return self.best()

    def finding(self, recipe: str) -> Finding:
        """Return a rule or an opponent of the study.

        Args:
            recipe: Text of the rule as it was found or, for a rule of the final comparison, as it
                is shown; or name of the opponent.

        Raises:
            StudyError: The study has no score of it.
        """
        every = self.best(len(self.records))
        found = next((f for f in every if f.recipe == recipe), None)
        if found is None and recipe not in self._final:  # SymPy is started only if it is needed
            compared = (f for f in every if f.held_out is not None)
            found = next((f for f in compared if f.simplified == recipe), None)
        if found is not None:
            return found
        if recipe not in self._final:
            raise StudyError(f"the study {self.name} has no score of {recipe}")
        return Finding(_on_selection_seeds(self._final[recipe]), self._final[recipe])

    def export(
        self, path: str | Path | None = None, recipe: str | None = None, name: str | None = None
    ) -> str:
        """Return the source of a Python file with the recommended optimizer; see `Finding.export`.

        Args:
            path: File to write as well; an existing one is replaced.
            recipe: Another rule or opponent of the study.
            name: Name of the class of a rule.

        Raises:
            OptsmithError: The recipe cannot be exported, or the file cannot be written.
        """
        finding = self.recommended if recipe is None else self.finding(recipe)
        return finding.export(path, name)

    def _selection(self, finding: Finding) -> float:
        """Return the sort key of the score that chooses among proposals at full length."""
        score = None if finding.held_out is None else finding.held_out.selection
        return math.inf if score is None else self.objective.key(score)

    @property
    def final(self) -> Comparison:
        """The proposals and the baselines at full length, on seeds that the search did not use."""
        return Comparison(self.objective.reported, tuple(self._final.values()), self.metrics)

    @property
    def verdict(self) -> str:
        """Whether the winner beats the best opponent, in a few sentences; empty before the end."""
        if self.claim is not None:
            rule = named_or("The best rule", shown(self.claim.rule))
            return self.claim.verdict(self.objective.reported, self.metrics, rule)
        if self.best(1):
            winner = self.best()
            return self.final.verdict(winner.recipe, named_or("The best rule", winner.simplified))
        opponent = self.final.best_baseline
        if opponent is None:
            return ""
        lr = "" if opponent.lr is None else f" with lr {opponent.lr:.4g}"
        others = len(self.final.baselines)
        best = f", the best of {others} opponents" if others > 1 else ""
        return f"No rule was accepted. Recommended: {opponent.recipe}{lr}{best}."

    def table(self) -> Any:
        """Return every evaluation as a pandas DataFrame."""
        return frame([row(record) for record in self.records])

    def compare(self, *others: Study) -> StudyComparison:
        """Compare this study with others of the same task: best score so far against cost.

        Studies that differ in the seed only form one group.

        Raises:
            StudyError: They have different tasks, objectives or protocols.
        """
        return compare_studies([self, *others])

    def plot(self) -> Any:
        """Return a matplotlib figure: winner and best opponent, and their differences by seed.

        Raises:
            OptsmithError: matplotlib is not installed, or there is nothing to plot yet.
        """
        from optsmith.report import plot_study  # late, because report depends on this package

        return plot_study(self)

    def _repr_html_(self) -> str:
        from optsmith.report import study_html

        return study_html(self)

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


def _on_selection_seeds(row: Evaluation) -> Evaluation:
    """Return a final row with the score by which it was chosen, instead of its report."""
    return row if row.selection is None else replace(row, score=row.selection, seeds=(), scores=())
