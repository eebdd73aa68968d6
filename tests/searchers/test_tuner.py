"""Constants tuned by CMA-ES."""

from __future__ import annotations

import math

import pytest

from optsmith import Rule
from optsmith.rules import constants, skeleton
from optsmith.searchers import Tuner


def values(rule):
    return [c.value for c in constants(rule)]


def test_generations_differ_in_constants_only_and_stay_in_range():
    rule = Rule.parse("0.5*ema(g, 0.9) + mix(g, w, 0.5)*lin(0.2, 0.9, 0.1)")
    tuner = Tuner(rule, seed=1, population=12)
    for _ in range(6):
        rules = tuner.ask()
        assert {skeleton(r) for r in rules} == {skeleton(rule)}
        for c in (c for r in rules for c in constants(r)):
            assert c.parameter.allows(c.value)
        tuner.tell([sum(values(r)) for r in rules])
    assert tuner.generation == 6


def test_it_finds_the_best_constants():
    target = [3.0, 0.99, 0.2]
    tuner = Tuner(Rule.parse("0.5*ema(g, 0.9) + 1*w"), seed=0, population=12)

    def loss(rule):
        c, beta, d = values(rule)
        apart = (math.log(c / 3.0), math.log((1 - beta) / 0.01), math.log(d / 0.2))
        return sum(x * x for x in apart)

    for _ in range(40):
        tuner.tell([loss(rule) for rule in tuner.ask()])
    assert values(tuner.best) == pytest.approx(target, rel=0.05)


def test_tied_constants_stay_tied():
    rule = Rule.parse("mom(g, 0.9) + sign(mom(g, 0.9)) + mom(g, 0.5)")
    tuner = Tuner(rule, seed=0, population=6)
    assert tuner.dimensions == 2
    for one in tuner.ask():
        first, second, other = values(one)
        assert first == second != other


def test_new_terms_start_at_zero_and_are_never_negative():
    rule = Rule.parse("g + 0*sign(g)")
    tuner = Tuner(rule, seed=0, population=8, weights={0: 0.01})
    weights = [values(one)[0] for one in tuner.ask()]
    assert min(weights) >= 0
    assert 0 < max(weights) < 0.01


def test_the_same_seed_gives_the_same_generations_and_failures_count_as_worst():
    def run(bad):
        tuner = Tuner(Rule.parse("0.5*g + 2*w"), seed=3, population=6)
        for _ in range(3):
            rules = tuner.ask()
            tuner.tell([bad if i == 0 else values(r)[0] for i, r in enumerate(rules)])
        return str(tuner.best)

    assert run(math.inf) == run(math.nan) == run(math.inf)
