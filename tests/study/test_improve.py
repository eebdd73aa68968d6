"""Improvement of found rules, on evaluations that are invented."""

from __future__ import annotations

import pytest

from optsmith import Objective, Rule
from optsmith.evaluation import Evaluation, Status
from optsmith.rules import constants
from optsmith.searchers import with_weights
from optsmith.study._context import REFINE, SELECTION
from optsmith.study._improve import Improver
from optsmith.study._race import Finalist


class Ledger:
    """Scores rules by a function; notes what it was asked for."""

    def __init__(self, score, has_time=True):
        self.score, self.has_time, self.asked = score, has_time, []

    def allows(self, what, entries, length):
        return self.has_time

    def evaluate(self, phase, entries):
        self.asked += entries
        return [
            Evaluation(e.recipe, Status.OK, score=self.score(e.recipe), lr=e.lr or e.around)
            for e in entries
        ]


RULES = [Finalist("g + m1", 0.1), Finalist("cd*m1", 0.2), Finalist("sign(g)", 0.3)]


def test_decays_are_tried_in_front_of_the_best_few():
    ledger = Ledger(lambda text: 1.0 if text == "ld*sign(g)" else 2.0)
    best, *others = Improver(ledger, Objective("loss"), 0).improve(RULES)
    tried = [e.recipe for e in ledger.asked if e.stage == SELECTION]
    assert tried[:7] == [
        "g + m1", "cd*(g + m1)", "ld*(g + m1)", "cd*m1", "sign(g)", "cd*sign(g)", "ld*sign(g)",
    ]  # fmt: skip
    assert len(others) == 2
    assert (best.recipe, best.lr) == ("ld*sign(g)", 0.3)


def test_all_numbers_of_the_best_are_tuned_at_full_length_on_fresh_seeds():
    def score(text):
        if "mom" not in text:
            return 2.0
        averages = [c for c in constants(Rule.parse(text)) if c.parameter.scale == "complement"]
        return 1.0 + sum(abs(c.value - 0.5) for c in averages)

    ledger = Ledger(score)
    best = Improver(ledger, Objective("loss"), 0).improve([Finalist("g + mom(g)", 0.1)])[0]
    generations = [e for e in ledger.asked if e.stage == REFINE]
    assert len({e.block for e in generations}) == 6
    assert {e.lr for e in generations} == {0.1}
    assert score(best.recipe) < score("g + mom(g)")


def test_tuned_numbers_are_kept_only_if_they_are_better():
    ledger = Ledger(lambda text: 1.0 if text == "g + m1" else 2.0)
    best = Improver(ledger, Objective("loss"), 0).improve(RULES)[0]
    assert (best.recipe, best.lr) == ("g + m1", 0.1)


def test_without_time_or_rules_nothing_changes():
    assert Improver(Ledger(None, has_time=False), Objective("loss"), 0).improve(RULES) == RULES
    assert Improver(Ledger(None), Objective("loss"), 0).improve([]) == []


@pytest.mark.parametrize(
    ("text", "weighted"),
    [
        ("g + m1", "g + 1*m1"),
        ("g - 0.5*m1", "g - 0.5*m1"),
        ("sign(g + m1 + 2)", "sign(g + 1*m1 + 2)"),
        ("cd*m1", "cd*m1"),
    ],
)
def test_sums_get_weights(text, weighted):
    assert with_weights(Rule.parse(text)) == Rule.parse(weighted)
