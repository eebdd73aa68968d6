"""Refinement of the best rule, on evaluations that are invented."""

from __future__ import annotations

import pytest

from optsmith import Objective, Rule
from optsmith.evaluation import Evaluation, Status
from optsmith.study._race import Finalist
from optsmith.study._refine import Refiner


class Ledger:
    """Scores a rule by what it contains; notes what it was asked for."""

    varied_cost = 1.0

    def __init__(self, worth, most=1000):
        self.worth, self.most, self.asked = worth, most, []

    def allows(self, what, entries, length):
        return len(entries) <= self.most

    def evaluate(self, phase, entries):
        self.asked += entries
        return [self._evaluation(entry) for entry in entries]

    def _evaluation(self, entry):
        loss = 1.0 + sum(v for part, v in self.worth.items() if part not in entry.recipe)
        seeds = (2 * entry.block, 2 * entry.block + 1)
        scores = (loss, 1.01 * loss)
        curve = ((10, 2 * loss + entry.block % 3), (20, loss))
        return Evaluation(
            entry.recipe, Status.OK, score=loss, lr=entry.lr, seeds=seeds, scores=scores,
            curve=curve,
        )  # fmt: skip


def refine(text, worth, **settings):
    ledger = Ledger(worth, **settings)
    objective = Objective("loss")
    return Refiner(ledger, objective, lambda rule: 1.0).refine(Finalist(text, 0.1)), ledger


def test_parts_that_make_no_difference_are_removed():
    refined, _ = refine("cd*(g + 0.5*m1 + 0.1*sign(g))", {"cd": 0.1, "m1": 0.05, "g": 0.2})
    assert refined.finalist == Finalist("cd*(g + 0.5*m1)", 0.1)
    parts = {part.without: part for part in refined.parts}
    assert parts["0.1*sign(g)"].removed
    assert not parts["cd"].removed
    assert round(parts["cd"].paired.change, 3) == 0.1
    assert round(parts["0.5*m1"].paired.change, 3) == 0.05


def test_numbers_are_rounded_while_nothing_is_lost():
    refined, _ = refine("g + 0.51234*m1(0.87654)", {"m1": 0.1, "g +": 0.1})
    assert refined.finalist.recipe == "g + 0.51*m1(0.88)"
    refined, _ = refine("g + 0.51234*m1(0.87654)", {"m1": 0.1, "g +": 0.1, "0.512": 0.1})
    assert refined.finalist.recipe == "g + 0.512*m1(0.877)"


def test_every_comparison_has_seeds_of_its_own():
    _, ledger = refine("cd*(g + 0.5*m1)", {"cd": 0.1, "m1": 0.1})
    rounds = {}
    for entry in ledger.asked:
        rounds.setdefault(entry.recipe, []).append(entry.block)
    blocks = rounds["cd*(g + 0.5*m1)"]
    assert len(blocks) == len(set(blocks))


def test_without_time_or_parts_the_rule_stays():
    refined, ledger = refine("cd*(g + 0.5*m1)", {}, most=0)
    assert (refined.finalist.recipe, refined.parts, ledger.asked) == ("cd*(g + 0.5*m1)", (), [])
    assert refine("g", {})[0].finalist.recipe == str(Rule.parse("g"))


def test_constants_take_the_place_of_averages_that_make_no_difference():
    text = "cd*(g + 0.5*ema(g, 0.9)/sqrt(ema(g^2, 0.99)))"
    refined, _ = refine(text, {"cd": 0.1, "0.99": 0.1, "g +": 0.1, "0.5": 0.1})
    assert refined.finalist.recipe == "cd*(g + 0.5*g/sqrt(|ema(g^2, 0.99)|))"
    parts = {part.without: part for part in refined.parts}
    assert parts["ema(g) → g"].removed
    mean = 1.0  # of the blocks' remainders
    expected = [(10, 2 * 1.1 + mean, 2.0 + mean), (20, 1.1, 1.0)]
    assert [pytest.approx(point) for point in expected] == list(parts["cd"].curve)


def test_with_little_time_parts_are_only_left_out():
    text = "cd*(g + 0.5*mom(g, 0.9))"
    assert len(refine(text, {"cd": 0.1})[0].parts) == 4
    refined, _ = refine(text, {"cd": 0.1}, most=13)
    assert [part.without for part in refined.parts] == ["cd", "g", "0.5*mom(g)"]
