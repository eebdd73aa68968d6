"""Refinement: a shorter form of the best rule that is not worse, and why its parts are there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from optsmith.evaluation import Ablation, Evaluation, Status, compare_evaluations
from optsmith.rules import Edit, Rule, deletions, flattenings, rounded
from optsmith.study._context import REFINE
from optsmith.study._ledger import Entry
from optsmith.study._race import Finalist
from optsmith.study._rows import longer
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Objective

PHASE = "refinement"

FIRST_BLOCK = 50_000
"""First block of seeds of a refinement; searches use those before."""

BLOCKS = 3
"""Blocks of seeds per comparison."""

TOLERANCE, TOLERANCE_IN_NOISE = 0.002, 0.005
"""Relative loss up to which a shorter rule counts as not worse, and the same if the interval of the
loss contains 0."""

DIGITS = (2, 3, 4)
"""Significant digits of rounded constants, tried in this order."""

WORK = 1.4
"""Work of a refinement, relative to the comparison of all parts, which is the first one."""

MOST_PARTS, MOST_FLAT = 16, 8
"""Maximum numbers of parts that are left out, and that are replaced by constants, by turns."""


@dataclass(frozen=True, slots=True)
class Refined:
    """The result of a refinement.

    Attributes:
        finalist: The shorter rule, with its learning rate.
        parts: What each part of the rule is worth.
    """

    finalist: Finalist
    parts: tuple[Ablation, ...] = ()


class Refiner:
    """Shortens a rule while it does not get worse, on seeds of its own, paired by seed.

    Args:
        ledger: Evaluates rules.
        objective: The objective of the task.
        size: Returns the typical size of the values of an expression.
    """

    def __init__(
        self, ledger: TimedLedger, objective: Objective, size: Callable[[Rule], float]
    ) -> None:
        self._ledger, self._objective, self._size = ledger, objective, size
        self._block = FIRST_BLOCK

    def refine(self, finalist: Finalist) -> Refined:
        """Return a shorter form of a rule, as far as there is time for it.

        If there is less time, no parts are replaced by constants.
        """
        rule = Rule.parse(finalist.recipe)
        parts = deletions(rule)[:MOST_PARTS]
        flat = flattenings(rule, self._size)[:MOST_FLAT]
        edits = [*parts, *flat]
        if finalist.lr is None or not edits:
            return Refined(finalist)
        if not self._has_time(finalist, len(edits) + 1):
            edits = parts
            if not edits or not flat or not self._has_time(finalist, len(edits) + 1):
                return Refined(finalist)
        rows = self._evaluate([rule, *(edit.rule for edit in edits)], finalist.lr)
        harmless = [
            e for e, row in zip(edits, rows[1:], strict=True) if self._as_good(row, rows[0])
        ]
        short, removed = self._without(rule, _shortest_first(harmless), finalist.lr)
        ablation = tuple(
            Ablation(
                without=edit.without,
                paired=compare_evaluations(row, rows[0], self._objective),
                removed=edit in removed,
                curve=_curve(row, rows[0]),
            )
            for edit, row in zip(edits, rows[1:], strict=True)
        )
        final = self._with_round_numbers(short, finalist.lr)
        return Refined(replace(finalist, recipe=str(final)), ablation)

    def _has_time(self, finalist: Finalist, rules: int) -> bool:
        entries = self._entries([finalist.recipe] * rules, finalist.lr, FIRST_BLOCK)
        return self._ledger.allows(PHASE, entries, WORK * self._ledger.varied_cost)

    @staticmethod
    def _entries(recipes: Sequence[str], lr: float | None, first: int) -> list[Entry]:
        blocks = range(first, first + BLOCKS)
        return [Entry(REFINE, recipe, block=b, lr=lr) for recipe in recipes for b in blocks]

    def _evaluate(self, rules: Sequence[Rule], lr: float) -> list[Evaluation]:
        """Return the evaluation of each rule on the next seeds."""
        entries = self._entries([str(rule) for rule in rules], lr, self._block)
        self._block += BLOCKS
        found = self._ledger.evaluate(PHASE, entries)
        rows = []
        for i in range(0, len(found), BLOCKS):
            row = found[i]
            for more in found[i + 1 : i + BLOCKS]:
                row = longer(row, more)
            rows.append(row)
        return rows

    def _as_good(self, row: Evaluation, base: Evaluation) -> bool:
        """Return whether a rule is not worse than another, as far as the noise can tell."""
        paired = compare_evaluations(row, base, self._objective)
        if row.status is not Status.OK or paired.diverged or math.isnan(paired.change):
            return False
        loss = paired.change if self._objective.direction == "minimize" else -paired.change
        return loss <= (TOLERANCE if paired.decided else TOLERANCE_IN_NOISE)

    def _without(self, rule: Rule, harmless: Sequence[Edit], lr: float) -> tuple[Rule, list[Edit]]:
        """Leave out as many parts together as possible; return the rest, and these parts."""
        shorter, removed = [rule], list[Edit]()
        for edit in harmless:
            edits = [*deletions(shorter[-1]), *flattenings(shorter[-1], self._size)]
            rest = {e.without: e.rule for e in edits}
            if edit.without in rest:
                shorter.append(rest[edit.without])
                removed.append(edit)
        short = self._shortest(shorter, lr)
        return short, removed[: shorter.index(short)]

    def _with_round_numbers(self, rule: Rule, lr: float) -> Rule:
        forms = [rule, *(rounded(rule, digits) for digits in reversed(DIGITS))]
        return self._shortest(list(dict.fromkeys(forms)), lr)

    def _shortest(self, forms: Sequence[Rule], lr: float) -> Rule:
        """Return the last form that is not worse than the first."""
        if len(forms) == 1:
            return forms[0]
        base, *others = self._evaluate(forms, lr)
        pairs = zip(forms[:0:-1], reversed(others), strict=True)
        return next((form for form, row in pairs if self._as_good(row, base)), forms[0])


def _shortest_first(edits: Sequence[Edit]) -> list[Edit]:
    """Return edits in the order of what they leave.

    So a term goes as a whole, and not only the function around it.
    """
    return sorted(edits, key=lambda edit: edit.rule.length)


def _curve(row: Evaluation, base: Evaluation) -> tuple[tuple[int, float, float], ...]:
    """Return the signals of two recipes at the steps that both curves have."""
    values = dict(base.curve)
    return tuple((step, value, values[step]) for step, value in row.curve if step in values)
