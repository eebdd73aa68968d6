"""The opponent whose constants are tuned as well, on evaluations that are invented."""

from __future__ import annotations

import pytest

from optsmith import Objective, Rule
from optsmith.evaluation import Claim, Evaluation, Status, compare_paired
from optsmith.rules import constants
from optsmith.study._context import REPORT, SEARCH, SELECTION
from optsmith.study._equal import EqualTuning
from optsmith.study._ledger import Entry
from optsmith.task import presets_for

SEEDS = tuple(range(8))


class Ledger:
    """Scores a rule by the distance of its momentum from 0.8; an evaluation takes a second."""

    rule_loss = 0.9

    def __init__(self, spent, until=None):
        self.trained, self.stages, self.until, self.clock = {SEARCH: spent}, [], until, self

    def allows(self, what, entries):
        return True

    def decide(self, name, question):
        return question()

    def seconds_left(self):
        return self.until

    def seconds(self, entries):
        return float(len(set(entries)))

    def evaluate(self, phase, entries):
        self.stages += [entry.stage for entry in entries]
        return [self._evaluation(entry) for entry in entries]

    def _evaluation(self, entry):
        betas = [c.value for c in constants(Rule.parse(entry.recipe)) if c.parameter.name == "beta"]
        loss = 1.0 + abs(betas[0] - 0.8) if betas else self.rule_loss
        first = len(SEEDS) * entry.block if entry.stage == REPORT else 0
        seeds = tuple(first + s for s in SEEDS)
        # The rule and the opponent are noisy in different ways.
        noise = [0.01 * ((s * (7 if betas else 5)) % 8) for s in seeds]
        return Evaluation(
            entry.recipe, Status.OK, score=loss, lr=entry.lr or 0.1, seeds=seeds,
            scores=tuple(loss * (1 + n) for n in noise),
        )  # fmt: skip


def claim(opponent, lr=0.1):
    paired = compare_paired([1.0] * 8, [1.1] * 8)
    return Claim(
        rule="g", lr=1.0, opponent=opponent, opponent_lr=lr, paired=paired, recommended="g"
    )


def extended(opponent, generations, until=None, rule_loss=0.9, **settings):
    terms = presets_for(1000)["quick"]
    protocol = terms.protocol
    ledger = Ledger(generations * 16 * protocol.score_seeds * protocol.steps, until)
    ledger.rule_loss = rule_loss
    row = ledger._evaluation(Entry(REPORT, "g", lr=1.0))
    equal = EqualTuning(ledger, terms, Objective("loss"))
    return equal.extend(claim(opponent, **settings), row), ledger


def test_the_opponent_gets_as_much_training_as_the_search_had():
    found, ledger = extended("torch:momentum+cosine", 20)
    assert ledger.stages.count(SEARCH) == 20 * 16
    assert ledger.stages[-2:] == [SELECTION, REPORT]
    assert found.equally_tuned_opponent == "torch:momentum+cosine"
    # Against 1.1, an opponent at 1.0 would be 9 % better; the tuned one is close to that.
    assert -0.13 < found.equally_tuned.change < -0.09
    assert found.paired == claim("torch:momentum+cosine").paired


@pytest.mark.parametrize(("rule_loss", "seeds"), [(0.9, 8), (0.975, 16), (1.0, 32)])
def test_seeds_are_added_until_the_comparison_is_decided(rule_loss, seeds):
    found, ledger = extended("torch:momentum+cosine", 20, rule_loss=rule_loss)
    assert found.equally_tuned.seeds == seeds
    assert found.equally_tuned.decided == (rule_loss < 1)
    assert ledger.stages.count(REPORT) == 1 + 2 * (seeds // 8 - 1)


def test_what_is_no_rule_is_not_tuned():
    found, ledger = extended("torch:adafactor", 3)
    assert found == claim("torch:adafactor")
    assert not ledger.stages


@pytest.mark.parametrize(("seconds", "generations"), [(10 * 16 + 2, 10), (8 * 16 + 2, 8)])
def test_generations_that_time_allows(seconds, generations):
    found, ledger = extended("torch:momentum+cosine", 10, seconds)
    assert found.equally_tuned is not None
    assert ledger.stages.count(SEARCH) == generations * 16


def test_much_less_training_is_not_called_equal():
    found, ledger = extended("torch:momentum+cosine", 10, 8 * 16 + 1)
    assert found.equally_tuned is None
    assert not ledger.stages
