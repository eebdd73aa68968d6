"""The forecast of the time left, on studies with an invented clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from simulated_study import STACKED, Study, opponents

from optsmith import Evaluation, Status
from optsmith.searchers import Mixture
from optsmith.study import Entry
from optsmith.study._context import REFINE, REPORT, SEARCH, SELECTION
from optsmith.study._forecast import Forecast
from optsmith.task import Contest, Preset, presets_for
from optsmith.training import Stacking

CONTEST = Contest(
    race=(0.1, 0.3),
    finalists=4,
    selection_seeds=2,
    looks=(8, 16, 32),
    horizons=(0.5, 0.7, 0.9),
    checks=True,
)
MANY = opponents(24)


def settings(budget: int = 64, **changes) -> Preset:
    return replace(presets_for(1000)["quick"], budget=budget, contest=CONTEST, **changes)


def mixture(budget: int = 192, **changes) -> Preset:
    return replace(Mixture.adapted(settings()), budget=budget, **changes)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workers": 1},
        {"workers": 4},
        {"step": 0.1, "copy": 0.02},
        {"step": 1e-3, "copy": 8e-5},
        {"step": 1e-3, "copy": 6e-4},
        {"stacking": Stacking(), "step": 0.01, "copy": 0.0},
        {"accepted": 0.5},
        {"accepted": 1.0},
        {"rule_cost": 1.5},
        {"drift": 1.4},
        {"drift": 0.7},
        {"forms": (2,)},
        {"extra": 1},
        {"extra": 2},
    ],
)
def test_from_a_tenth_on_the_forecast_of_a_tree_search_is_within_a_factor_of_one_and_a_half(
    changes, seed
):
    assert Study(settings(), seed=seed, **changes).run().worst() < 1.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"workers": 1},
        {"workers": 4},
        {"step": 1e-3, "copy": 8e-5},
        {"step": 1e-3, "copy": 6e-4},
        {"stacking": Stacking(), "step": 0.01, "copy": 0.0},
        {"rule_cost": 1.3},
        {"rule_cost": 2.0},
        {"drift": 1.3},
        {"forms": (12, 3)},
        {"forms": (24, 6, 6)},
        {"extra": 1},
    ],
)
@pytest.mark.parametrize("equally_tuned", [False, True])
def test_so_is_that_of_a_search_of_constants(changes, seed, equally_tuned):
    terms = mixture(equally_tuned=equally_tuned)
    usual = {"rule_cost": 1.6, "forms": (18, 5, 5)}
    assert Study(terms, seed=seed, **{**usual, **changes}).run().worst() < 1.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "changes",
    [
        {"varied_cost": 4.3},
        {"varied_cost": 2.5},
        {"varied_cost": 5.5},
        {"stacking": Stacking(), "step": 0.01, "copy": 0.0, "varied_cost": 1.05},
    ],
)
def test_so_is_that_of_a_search_that_compares_structures_in_between(changes, seed):
    usual = {"rule_cost": 1.6, "forms": (18, 5, 5), "varied": 64}
    assert Study(mixture(384), seed=seed, **{**usual, **changes}).run().worst() < 1.5


@pytest.mark.parametrize("seed", range(3))
def test_opponents_that_cannot_be_stacked_take_longer(seed):
    study = Study(settings(), seed=seed, opponents=opponents(24, plain=8)).run()
    # Whether the best opponent is one of them is known only at the end.
    assert study.worst(end=0.8) < 1.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dry", [2, 3])
def test_so_is_that_of_a_search_whose_last_levels_run_out_of_draws(dry, seed):
    assert Study(settings(), dry=dry, seed=seed).run().worst() < 1.5


def test_a_searcher_that_knows_its_end_is_believed():
    free, ending = (Forecast(settings(), MANY, 1) for _ in range(2))
    evaluation = Evaluation("g", Status.OK, trained=1475, seconds=1.0, steps=100)
    for forecast in (free, ending):
        for i in range(8):
            forecast.add("search", evaluation, float(i + 1))
    ending.progress(0.9)
    done = free.left(8.0) - ending.left(8.0)
    ending.skip("search")
    rest = free.left(8.0) - ending.left(8.0)
    assert done == pytest.approx(rest * (0.9 - 8 / 64) / (1 - 8 / 64), rel=0.05)


def test_nothing_is_known_before_the_first_evaluation_and_something_after_it():
    forecast = Forecast(settings(), MANY, 2)
    assert forecast.left(3.0) is None
    assert forecast.done(3.0) == 0.0
    forecast.add("opponents", Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100), 4.0)
    assert forecast.left(4.0) is not None
    assert 0 < forecast.done(4.0) < 1


def test_a_rejected_candidate_takes_time_but_is_no_progress():
    events = [
        Evaluation("g", status, trained=1000, seconds=1.0, steps=100)
        for status in (Status.OK, Status.OK, Status.REJECTED, Status.REJECTED)
    ]
    terms = replace(presets_for(1000)["quick"], budget=500, contest=Contest())
    lefts = {}
    for chosen in (events[:2] * 30, events * 15):
        forecast = Forecast(terms, (), 1)
        for i, evaluation in enumerate(chosen[:40]):
            forecast.add("search", evaluation, float(i + 1))
        lefts[len(set(map(id, chosen)))] = forecast.left(40.0)
    assert lefts[4] > 1.5 * lefts[2]


def test_rates_are_recent():
    terms = replace(presets_for(1000)["quick"], budget=1000, contest=Contest(), refine=False)
    forecast = Forecast(terms, (), 1)
    now = 0.0
    for seconds in [10.0] * 100 + [1.0] * 100:
        now += seconds
        evaluation = Evaluation("g", Status.OK, trained=1475, seconds=seconds, steps=100)
        forecast.add("search", evaluation, now)
    # 800 candidates are left, and the comparison: 5 rules with 10.75 + 4 full runs each.
    assert forecast.left(now) == pytest.approx(850, rel=0.2)


def test_a_replayed_session_counts_although_it_takes_no_time():
    terms = settings()
    live, replayed = Forecast(terms, MANY, 2), Forecast(terms, MANY, 2)
    evaluation = Evaluation("g", Status.OK, trained=1475, seconds=1.0, steps=100)
    for i in range(32):
        live.add("search", evaluation, 0.5 * (i + 1))
        replayed.add("search", evaluation, 0.0)
    assert replayed.left(0.0) == pytest.approx(live.left(16.0), rel=0.25)


def test_time_that_passes_is_subtracted():
    forecast = Forecast(settings(), MANY, 1)
    evaluation = Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100)
    forecast.add("opponents", evaluation, 1.0)
    assert forecast.left(11.0) == pytest.approx(forecast.left(1.0) - 10)


def test_jobs_that_all_run_are_done_when_the_longest_is():
    forecast = Forecast(settings(), MANY, 2)
    forecast.add("search", Evaluation("g", Status.OK, trained=1000, seconds=1.0, steps=100), 1.0)
    jobs = [[Entry(SELECTION, "g", around=0.1)], [Entry(SELECTION, "m1", around=0.1)]]
    forecast.begin("tuning", jobs, 10.0)
    whole = forecast.left(10.0)
    forecast.add("tuning", Evaluation("g", Status.OK, trained=9000, seconds=9.0), 19.0)
    assert forecast.left(19.0) == pytest.approx(whole - 9.0, rel=0.05)


def test_a_phase_that_is_over_takes_no_more_time():
    forecast = Forecast(settings(), MANY, 1)
    evaluation = Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100)
    forecast.add("opponents", evaluation, 1.0)
    before = forecast.left(1.0)
    forecast.skip("search")
    assert forecast.left(1.0) < before
    for phase in (
        "opponents",
        "refinement",
        "tuning",
        "report",
        "speed-up",
        "checks",
        "equal tuning",
    ):
        forecast.skip(phase)
    assert forecast.left(1.0) == 0


def test_what_is_begun_replaces_what_was_expected():
    forecast = Forecast(mixture(), MANY, 1, stacking=STACKED, group=4, batch=8)
    forecast.add("search", Evaluation("g", Status.OK, trained=2000, seconds=1.0, steps=1000), 1.0)
    forecast.skip("search")
    usual = forecast.left(1.0)
    forecast.begin("refinement", [[Entry(REFINE, "g", lr=0.1)]], 1.0)
    few = forecast.left(1.0)
    forecast.begin("tuning", [[Entry(SELECTION, "g", around=0.1)]], 1.0)
    assert usual > few > forecast.left(1.0)


def test_a_search_ends_when_the_plan_says_so():
    forecast = Forecast(settings(), MANY, 2, search_until=300.0, start=1000.0, before=100.0)
    slow = Evaluation("g", Status.OK, trained=1475, seconds=500.0, steps=100)
    forecast.add("search", slow, 1150.0)
    before = forecast.left(1150.0)
    forecast.skip("search")
    assert before == pytest.approx(forecast.left(1150.0) + 50)


def test_full_runs_may_be_slower_than_those_of_a_proxy():
    lefts = []
    for ratio in (1.0, 5.0):
        forecast = Forecast(settings(), MANY, 1, ratio=ratio)
        evaluation = Evaluation("g", Status.OK, trained=475, seconds=1.0, steps=100)
        forecast.add("search", evaluation, 1.0)
        forecast.skip("search")
        lefts.append(forecast.left(1.0))
    assert lefts[1] == pytest.approx(5 * lefts[0])


def test_a_study_ends_with_its_time_because_parts_are_left_out():
    slow = Evaluation("g", Status.OK, trained=475, seconds=5.0, steps=100)
    free, limited = Forecast(settings(), MANY, 2), Forecast(settings(), MANY, 2, until=360)
    for forecast in (free, limited):
        forecast.add("search", slow, 60.0)
    assert free.left(60.0) > 400
    assert limited.left(60.0) == 300
    jobs = [[Entry(SELECTION, "g", around=0.1)], [Entry(SELECTION, "m1", around=0.1)]]
    limited.begin("tuning", jobs, 350.0)
    needed = limited.seconds(jobs) + limited.seconds([[Entry(REPORT, "g", lr=0.1)]])
    assert limited.left(350.0) == pytest.approx(needed)  # what has begun is finished, and reported


def test_optional_parts_without_time_for_them_are_not_expected():
    forecast = Forecast(settings(), MANY, 2, until=100.0)
    fast = Evaluation("g", Status.OK, trained=1000, seconds=0.5)
    forecast.add("report", fast, 20.0)
    checks = forecast.seconds([[Entry(REPORT, "g", 2.0, lr=0.1)]])
    assert forecast.left(20.0) > checks > 1
    late = Forecast(settings(), MANY, 2, until=20.0 + 0.5 * checks)
    late.add("report", fast, 20.0)
    late._work["report"] = []
    assert late.left(20.0) == 0


def test_optional_parts_leave_time_for_the_equally_tuned_comparison():
    forecast = Forecast(mixture(equally_tuned=True), MANY, 1)
    forecast.add("search", Evaluation("g", Status.OK, trained=1000, seconds=1.0), 1.0)
    forecast.skip("search")
    without = Forecast(mixture(), MANY, 1)
    without.add("search", Evaluation("g", Status.OK, trained=1000, seconds=1.0), 1.0)
    without.skip("search")
    assert without.reserved() == without.needed()
    assert forecast.needed() == without.needed()
    assert forecast.reserved() > forecast.needed()
    forecast.begin("equal tuning", [[Entry(SEARCH, "g", lr=0.1)]], 1.0)
    assert forecast.reserved() == forecast.needed()


def test_the_cost_of_other_structures_is_that_of_the_search():
    forecast = Forecast(mixture(), MANY, 1, stacking=STACKED)
    scored = Evaluation("g", Status.OK, trained=1000, seconds=1.0)
    for i in range(80):
        varied = i >= 40
        forecast.progress((i + 1) / 80)
        found = replace(scored, seconds=3.0 if varied else 1.0)
        forecast.add("search", found, 1.0, varied)
    assert 2 < forecast.varied_cost < 4  # three times, blended with what is usual
    alone = Forecast(mixture(), MANY, 1)
    alone.add("search", Evaluation("g", Status.OK, trained=1000, seconds=1.0), 1.0)
    assert alone.varied_cost == 1.0


def test_a_refinement_leaves_time_for_the_comparison():
    forecast = Forecast(settings(), MANY, 1)
    forecast.add("search", Evaluation("g", Status.OK, trained=1000, seconds=1.0), 1.0)
    forecast.skip("search")
    everything, least = forecast.needed(), forecast.needed(fewest=True)
    assert everything > 3 * least > 30
    forecast.begin("tuning", [[Entry(SELECTION, "g", around=0.1)]], 1.0)
    assert forecast.needed() < least  # one of them is tuned, and will be reported
    forecast.begin("report", [[Entry(REPORT, "g", lr=0.1)]], 1.0)
    assert forecast.needed() == 0
