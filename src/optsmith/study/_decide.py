"""Report seeds are added to two recipes until their difference is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optsmith.evaluation import Evaluation, Paired, compare_evaluations
from optsmith.study._context import REPORT
from optsmith.study._ledger import Entry
from optsmith.study._rows import longer
from optsmith.study._timed_ledger import TimedLedger
from optsmith.task import Objective


@dataclass(frozen=True, slots=True)
class Decided:
    """Two recipes after their seeds were added.

    Attributes:
        rule: The row of the rule.
        opponent: The row of the opponent.
        paired: The comparison, corrected for the looks at it.
        looks: How often it was looked at.
        stopped: Why an undecided comparison got no more seeds, "seeds" or "time"; else empty.
    """

    rule: Evaluation
    opponent: Evaluation
    paired: Paired
    looks: int
    stopped: str = ""


def decide(
    ledger: TimedLedger,
    phase: str,
    looks: Sequence[int],
    objective: Objective,
    rule: Evaluation,
    opponent: Evaluation,
) -> Decided:
    """Compare two recipes on report seeds, which are added as long as nothing is decided.

    Args:
        ledger: Evaluates recipes.
        phase: The phase of the evaluations.
        looks: Numbers of seeds at which the comparison is looked at.
        objective: The objective of the task.
        rule: The row of the rule, with at least the seeds of the first look.
        opponent: The row of the opponent, with the seeds of the first look.
    """
    rows = [rule, opponent]
    paired = compare_evaluations(rows[0], rows[1], objective, len(looks))
    for look, seeds in enumerate(looks, start=1):
        more = [
            (i, Entry(REPORT, row.recipe, block=block, lr=row.lr))
            for i, row in enumerate(rows)
            for block in range(len(row.seeds) // looks[0], seeds // looks[0])
        ]
        entries = [entry for _, entry in more]
        if entries and not ledger.allows(f"{phase}: {seeds} seeds", entries):
            return Decided(rows[0], rows[1], paired, look - 1, "time")
        found = ledger.evaluate(phase, entries)
        for (i, _), block in zip(more, found, strict=True):
            rows[i] = longer(rows[i], block)
        paired = compare_evaluations(rows[0], rows[1], objective, len(looks))
        if paired.decided:
            return Decided(rows[0], rows[1], paired, look)
    return Decided(rows[0], rows[1], paired, len(looks), "seeds")
