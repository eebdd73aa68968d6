"""The final comparison: tune, choose, and report until the difference is decided."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optsmith.evaluation import Claim, Evaluation, Status
from optsmith.study._context import REPORT, SELECTION
from optsmith.study._decide import decide
from optsmith.study._evidence import Evidence
from optsmith.study._ledger import Entry
from optsmith.study._race import Finalist
from optsmith.study._rows import merged
from optsmith.study._stages import looks_of
from optsmith.study._timed_ledger import REPORTING, TUNING, TimedLedger
from optsmith.task import Metric, Objective, Preset


@dataclass(frozen=True)
class Result:
    """The result of a comparison.

    Attributes:
        rows: The final evaluation of every rule and opponent.
        claim: What is claimed about the best rule; None without a rule or an opponent.
    """

    rows: tuple[Evaluation, ...]
    claim: Claim | None


class Comparing:
    """Compares rules with opponents at full length.

    Learning rates, the best rule and the best opponent are chosen on selection seeds. Then all of
    them are trained on report seeds; the best rule and the best opponent on more seeds, until the
    difference is decided.

    Args:
        ledger: Evaluates recipes.
        terms: Protocol and settings of the comparison.
        objective: The objective of the task.
        metrics: Metrics of the task, by name.
    """

    def __init__(
        self,
        ledger: TimedLedger,
        terms: Preset,
        objective: Objective,
        metrics: Mapping[str, Metric],
    ) -> None:
        self.ledger, self.terms, self.objective = ledger, terms, objective
        self.looks = looks_of(terms)
        self._evidence = Evidence(ledger, terms, objective, metrics)

    def run(self, rules: Sequence[Finalist], opponents: Sequence[Finalist]) -> Result:
        """Compare rules with opponents.

        Args:
            rules: The rules, best first.
            opponents: The opponents, best first.
        """
        rules, opponents = self._in_time(rules, opponents)
        recipes = [*rules, *opponents]
        tuned = self._tune(recipes)
        rows = self._report(tuned)
        by_recipe = {row.recipe: row for row in rows}
        rule = self._choose([by_recipe[f.recipe] for f in rules], by_search=True)
        opponent = self._choose([by_recipe[f.recipe] for f in opponents], by_search=False)
        if rule is None or opponent is None:
            return Result(tuple(rows), None)
        found = decide(self.ledger, REPORTING, self.looks, self.objective, rule, opponent)
        rule, opponent = found.rule, found.opponent
        by_recipe.update({rule.recipe: rule, opponent.recipe: opponent})
        most = len(self.looks)
        claim = self._evidence.claim(
            rule, opponent, most=most, looks=found.looks, stopped=found.stopped
        )
        return Result(tuple(by_recipe.values()), claim)

    def _in_time(
        self, rules: Sequence[Finalist], opponents: Sequence[Finalist]
    ) -> tuple[Sequence[Finalist], Sequence[Finalist]]:
        """Return as many of both as there is time for, at least one of each; decided once."""
        if self.ledger.until is None:
            return rules, opponents

        def counts() -> list[int]:
            left = self.ledger.seconds_left()
            kept = [len(rules), len(opponents)]
            while max(kept) > 1 and self._seconds(rules[: kept[0]], opponents[: kept[1]]) > left:
                kept[kept.index(max(kept))] -= 1
            return kept

        found = self.ledger.clock.decide("finalists", counts)
        return rules[: found[0]], opponents[: found[1]]

    def _seconds(self, *finalists: Sequence[Finalist]) -> float:
        """Return the expected seconds to tune and report finalists."""
        recipes = [f for every in finalists for f in every]
        reports = [Entry(REPORT, f.recipe, lr=f.lr or 1.0) for f in recipes]
        return self.ledger.seconds(self._tuning(recipes)) + self.ledger.seconds(reports)

    def _tuning(self, recipes: Sequence[Finalist]) -> list[Entry]:
        # A fixed grid is the paper's way, and does not need to know where to look.
        auto = self.terms.protocol.lr_search == "auto"
        return [Entry(SELECTION, f.recipe, around=f.lr if auto else None) for f in recipes]

    def _tune(self, recipes: Sequence[Finalist]) -> list[Evaluation]:
        return self.ledger.evaluate(TUNING, self._tuning(recipes))

    @property
    def _tunes_at_full_length(self) -> bool:
        protocol = self.terms.protocol
        whole = protocol.final_stage.tune_steps == protocol.final_steps
        return whole or self.terms.contest.selection_seeds > 0

    def _choose(self, rows: Sequence[Evaluation], by_search: bool) -> Evaluation | None:
        """Return the best row: by its selection score, where that is of full runs.

        Otherwise rules are in the order of their search scores, and the opponent is the one with
        the best report, which can only make it stronger.
        """
        scored = [row for row in rows if row.status is Status.OK and row.score is not None]
        if not scored:
            return None
        if self._tunes_at_full_length:
            return min(scored, key=lambda row: self._key(row.selection))
        return scored[0] if by_search else min(scored, key=lambda row: self._key(row.score))

    def _key(self, score: float | None) -> float:
        return math.inf if score is None else self.objective.key(score)

    def _report(self, tuned: Sequence[Evaluation]) -> list[Evaluation]:
        """Return the final rows of tuned recipes; one that could not be tuned keeps its status."""
        ready = [e for e in tuned if e.status is Status.OK]
        entries = [Entry(REPORT, e.recipe, lr=e.lr) for e in ready]
        reported = self.ledger.evaluate(REPORTING, entries)
        found = dict(zip((e.recipe for e in ready), reported, strict=True))
        return [merged(e, found[e.recipe]) if e.recipe in found else e for e in tuned]
