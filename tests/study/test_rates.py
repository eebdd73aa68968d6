"""Rates of training, learned from evaluations."""

from __future__ import annotations

import pytest

from optsmith.study._rates import Kind, Rate, Rates
from optsmith.study._under_way import PendingJob, UnderWay
from optsmith.study._work import Runs, Work
from optsmith.training import Stacking

SMALL = Stacking(copies=64, parameters=1000, activations=1000)
RUNS = (Runs(8, 1000),)


def test_the_kind_of_a_recipe():
    assert Kind.of("cd*g") is Kind.RULE
    assert Kind.of("torch:adam+cosine") is Kind.FORM
    assert Kind.of("torch:adafactor") is Kind.PLAIN


def test_evaluations_of_a_job_share_the_steps_of_its_stack():
    rates = Rates(SMALL)
    alone, four = (rates.loops(Kind.RULE, RUNS, together) for together in (1, 4))
    assert 2 < alone / four < 4
    assert rates.loops(Kind.PLAIN, RUNS, 4) > 8000  # one run after the other
    unstacked = Rates(Stacking())
    assert unstacked.loops(Kind.RULE, RUNS, 4) == unstacked.loops(Kind.RULE, RUNS, 1)


def test_copies_of_large_models_cost_more_than_the_steps_of_their_stack():
    large = Stacking(copies=64, parameters=2_000_000, activations=2_000_000)
    alone, four = (Rates(large).loops(Kind.RULE, RUNS, together) for together in (1, 4))
    assert alone / four < 1.2


def test_a_job_may_need_several_stacks():
    narrow = Stacking(copies=4, parameters=1000, activations=1000)
    wide = Rates(SMALL).loops(Kind.RULE, RUNS, 4)
    assert Rates(narrow).loops(Kind.RULE, RUNS, 4) > 2 * wide


def test_what_is_not_known_is_like_what_is_most_similar():
    rates = Rates(SMALL, ratio=2.0, rule_cost=1.5)
    assert not rates.known
    assert rates.per_loop(Kind.RULE, short=True) == 0
    rates.add(Kind.FORM, True, 1.0, 1000)
    assert rates.known
    assert rates.per_loop(Kind.FORM, short=True) == pytest.approx(1e-3)
    assert rates.per_loop(Kind.FORM, short=False) == pytest.approx(2e-3)
    assert rates.per_loop(Kind.RULE, short=True) == pytest.approx(1.5e-3)
    for _ in range(100):
        rates.add(Kind.RULE, False, 8.0, 1000)
    assert rates.per_loop(Kind.RULE, short=False) == pytest.approx(8e-3, rel=0.3)
    assert rates.per_loop(Kind.RULE, short=True) == pytest.approx(4e-3)


def test_recent_evaluations_count_more():
    rate = Rate()
    for seconds in [1.0] * 100 + [2.0] * 40:
        rate.add(seconds, 1.0)
    assert rate.get() > 1.8


def test_the_time_of_work_on_several_workers():
    rates = Rates(Stacking())
    rates.add(Kind.RULE, False, 1.0, rates.loops(Kind.RULE, RUNS, 1))
    one, two = (rates.work(Work(4, RUNS), 0.0, False, 1, workers) for workers in (1, 2))
    assert (one, two) == (pytest.approx(4.0), pytest.approx(2.0))


def test_jobs_start_when_workers_are_free():
    rates = Rates(Stacking())
    rates.add(Kind.RULE, False, 10.0, rates.loops(Kind.RULE, RUNS, 1))
    batch = UnderWay("tuning", [PendingJob(["g"], [RUNS]) for _ in range(3)], 2, 100.0)
    assert batch.left(rates, False, 100.0) == pytest.approx(20)
    assert batch.left(rates, False, 106.0) == pytest.approx(14)
    batch.add("g", 109.0)  # the third starts, and the second goes on
    assert batch.left(rates, False, 109.0) == pytest.approx(10)
    assert batch.left(rates, False, 112.0) == pytest.approx(7)
    batch.add("g", 113.0)
    batch.add("g", 119.0)
    assert batch.left(rates, False, 119.0) == 0


def test_a_job_that_takes_longer_than_expected_is_never_done_before_its_time():
    rates = Rates(Stacking())
    rates.add(Kind.RULE, False, 10.0, rates.loops(Kind.RULE, RUNS, 1))
    batch = UnderWay("tuning", [PendingJob(["g"], [RUNS])], 2, 0.0)
    assert batch.left(rates, False, 30.0) == pytest.approx(1)
