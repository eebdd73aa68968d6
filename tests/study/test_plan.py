"""Plans for a limited time: pure functions of measured speeds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import optsmith
from optsmith import Task, TaskError
from optsmith._duration import parse_duration
from optsmith.execution import InProcess
from optsmith.searchers import Mixture
from optsmith.study._cost import work_of
from optsmith.study._pace import (
    FOUND_RULE,
    RunTime,
    Speed,
    _rule_cost,
    measure_speed,
    plain_share,
    step_ratio,
)
from optsmith.study._plan import make_plan
from optsmith.study._rates import MIXTURE_COST
from optsmith.study._timing import Timing
from optsmith.task import presets_for
from optsmith.training import Stacking, choose_stacking
from tasks_for_tests import bowl, line

HOUR = 3600.0


def speed(seconds: float, steps: int = 1000, stacked: float = 1.0) -> Speed:
    return Speed(RunTime(seconds / steps), RunTime(stacked * seconds / steps))


def plan_for(run: float, time: float, steps: int = 1000, opponents: int = 40, **changes):
    preset = presets_for(steps)["quick"]
    return make_plan(
        preset, time, speed(run, steps), opponents, 2, changes.pop("algorithm", "mct"), **changes
    )


def feasible():
    runs, times, steps = (0.03, 0.3, 3.0, 31.0, 300.0), (60, 360, 1800, HOUR, 8 * HOUR), (60, 5000)
    for run, time, length in itertools.product(runs, times, steps):
        try:
            yield length, time, plan_for(run, time, length)
        except TaskError:
            assert time < 40 * run + 20


def test_every_plan_fits_and_leaves_time_for_the_comparison():
    count = 0
    for _, time, plan in feasible():
        count += 1
        assert plan.seconds <= 0.86 * time
        before = plan.expected["opponents"] + plan.expected["search"]
        assert before <= plan.search_until < time
    assert count > 30


def test_every_plan_has_enough_of_everything_and_not_too_much():
    for full, _, plan in feasible():
        settings, protocol, contest = plan.settings, plan.settings.protocol, plan.settings.contest
        assert 8 <= settings.budget <= 512
        assert 1 <= protocol.score_seeds <= 4
        assert max(20, 0.1 * full) <= protocol.steps <= full
        assert protocol.proxy_steps == protocol.steps
        assert protocol.tune_steps == protocol.final_steps == full
        assert contest.looks[0] >= 5
        assert contest.finalists >= 1
        assert settings.proposals >= 1
        assert all(share * full >= 20 for share in contest.race)
        assert bool(contest.race) == (plan.opponents > contest.finalists)


def test_the_search_gets_about_half_of_the_time_or_more():
    for _, time, plan in feasible():
        if plan.seconds > 0.7 * time and plan.settings.contest.looks[0] == 8:
            assert plan.expected["search"] >= 0.45 * plan.seconds


def test_more_time_never_makes_a_plan_less_thorough():
    found = [plan_for(3.0, time) for time in (180, 360, 900, 1800, HOUR, 4 * HOUR, 12 * HOUR)]
    for less, more in itertools.pairwise(found):
        assert more.opponents >= less.opponents
        assert more.settings.contest.looks[-1] >= less.settings.contest.looks[-1]
        assert more.expected["search"] >= 0.9 * less.expected["search"]
    assert found[0].settings.contest.horizons == ()
    assert not found[0].settings.contest.checks
    assert found[-1].settings.contest.looks == (8, 16, 32)
    assert found[-1].settings.contest.checks


def test_with_time_search_runs_have_thirty_percent_of_the_length():
    plan = plan_for(3.0, HOUR)
    assert plan.settings.protocol.steps == 300
    assert plan.settings.budget >= 96


def test_a_task_of_milliseconds_is_searched_at_full_length_and_does_not_fill_the_time():
    plan = plan_for(0.03, HOUR)
    assert plan.settings.protocol.steps == 1000
    assert plan.settings.budget == 512
    assert plan.seconds < HOUR / 2


def test_the_same_arguments_give_the_same_plan():
    assert plan_for(31.0, 1800) == plan_for(31.0, 1800)


def test_the_plan_in_words():
    plan = plan_for(31.0, HOUR)
    settings = plan.settings
    assert plan.text.startswith(f"a run takes 31 s: {settings.budget} candidates at ")
    assert " % length, " in plan.text
    assert f", {plan.opponents} opponents, " in plan.text
    assert plan.text.endswith(" of 1 h 00 min")


def test_too_little_time_is_refused_with_the_time_that_would_do():
    with pytest.raises(TaskError, match="too short for a claim: a run takes 31 s") as caught:
        plan_for(31.0, 360)
    message = str(caught.value)
    assert "--proxy" in message
    words = message.partition("need about ")[2].partition(";")[0]
    needed = parse_duration(words.replace("min", "m"))
    plan = plan_for(31.0, needed)
    assert plan.settings.budget >= 8
    with pytest.raises(TaskError):
        plan_for(31.0, 0.9 * needed)


def test_time_that_has_passed_is_not_planned_again():
    assert plan_for(3.0, 1800, spent=600).seconds < 0.86 * 1200


def test_workers_make_plans_larger():
    preset = presets_for(1000)["quick"]
    one, four = (make_plan(preset, 1800, speed(3.0), 40, n, "mct") for n in (0, 4))
    assert four.settings.budget > one.settings.budget


def test_stacks_make_plans_larger():
    preset = presets_for(1000)["quick"]
    plain, stacked = (
        make_plan(preset, 600, speed(3.0, stacked=s), 40, 2, "mct") for s in (1.0, 0.1)
    )
    assert stacked.settings.budget > plain.settings.budget
    assert "(0.3 s in stacks)" in stacked.text


def test_opponents_that_cannot_be_stacked_take_longer():
    def cost(share: float) -> float:
        preset = presets_for(1000)["quick"]
        fast = speed(0.3, stacked=0.1)
        plan = make_plan(preset, HOUR, fast, 40, 2, "mct", plain_share=share)
        return plan.expected["opponents"]

    assert cost(1.0) > 2 * cost(0.0)


def test_few_candidates_descend_fewer_levels():
    assert plan_for(31.0, 1800).settings.options["levels"] <= 2
    assert plan_for(0.3, HOUR).settings.options["levels"] == 4
    assert "levels" not in plan_for(0.3, HOUR, algorithm="random").settings.options


def test_settings_that_were_given_are_kept():
    preset = replace(presets_for(1000)["quick"], budget=20, proposals=7)
    preset = replace(preset, protocol=preset.protocol.replace(score_seeds=3))
    fixed = ("budget", "proposals", "score_seeds")
    plan = make_plan(preset, HOUR, speed(3.0), 40, 2, "mct", fixed=fixed)
    assert plan.settings.budget == 20
    assert plan.settings.proposals == 7
    assert plan.settings.protocol.score_seeds == 3


def test_a_proxy_is_searched_at_its_own_length_and_speed():
    preset = presets_for(10_000)["quick"]
    preset = replace(preset, protocol=preset.protocol.replace(steps=777, proxy_steps=777))
    full = speed(600.0, 10_000)
    with pytest.raises(TaskError):
        make_plan(preset, 4 * HOUR, full, 40, 2, "mct")
    plan = make_plan(preset, 6 * HOUR, full, 40, 2, "mct", proxy=speed(30.0, 10_000))
    assert plan.settings.protocol.steps == 777
    assert "on the proxy" in plan.text


def test_without_opponents_there_is_nothing_to_race():
    plan = plan_for(3.0, HOUR, opponents=0)
    assert plan.opponents == 0
    assert plan.expected["opponents"] == 0
    assert plan.settings.contest.race == ()


# --- speed ----------------------------------------------------------------------------------------


class Ticks:
    """A clock that advances with each call."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-3
        return self.now


def test_a_measurement_takes_a_short_piece_and_restores_the_random_state():
    before = torch.get_rng_state()
    found = measure_speed(bowl(), Stacking(), "cpu", 20, most=1.0, clock=Ticks())
    assert torch.equal(torch.get_rng_state(), before)
    assert found.plain == found.stacked
    assert found.plain.step > 0
    assert found.plain.run >= 0


def test_stacks_are_measured_where_runs_are_stacked():
    task = line()
    stacking = choose_stacking(task, torch.device("cpu"))
    assert stacking.copies > 1
    found = measure_speed(task, stacking, "cpu", 20, most=1.0, clock=Ticks())
    assert found.stacked != found.plain
    assert found.stacked.seconds(20) > 0


@pytest.mark.parametrize(("seconds", "cost"), [(70.0, 2.5), (40.0, 1.0), (30.0, 1.0)])
def test_the_cost_of_found_rules_is_that_of_their_steps(seconds, cost):
    known = RunTime(step=0.01, run=2.0, loop=0.1)  # 0.2 s per step of a stack of ten, and 20 s
    whole = {50: 30.0, 100: 40.0, 200: 60.0}
    stacks = SimpleNamespace(copies=10, steps=100, timed=lambda copies, rule: {100: seconds})
    # Of 40 s of a full run of the stack, 20 s are for what is not the rule's.
    assert _rule_cost(stacks, whole, known, FOUND_RULE) == pytest.approx(1 + (cost - 1) / 2)


def test_found_rules_are_measured_where_runs_are_stacked():
    task = line()
    stacking = choose_stacking(task, torch.device("cpu"))
    found = measure_speed(task, stacking, "cpu", 20, most=1.0, clock=Ticks(), found=FOUND_RULE)
    assert found.rule_cost >= 1
    alone = measure_speed(task, Stacking(), "cpu", 20, most=1.0, clock=Ticks(), found=FOUND_RULE)
    assert alone.rule_cost == MIXTURE_COST


def test_a_plan_counts_the_cost_of_found_rules():
    cheap = Speed(RunTime(9e-3), RunTime(1e-3), rule_cost=1.0)
    preset = Mixture.adapted(presets_for(1000)["quick"])
    one, four = (
        Timing(speed, speed, 2, 0.0).phases(preset, 18)
        for speed in (cheap, replace(cheap, rule_cost=4.0))
    )
    assert four["search"] == pytest.approx(4 * one["search"])
    assert four["opponents"] == one["opponents"]


def test_a_slow_task_is_measured_by_its_first_steps():
    steps = []

    def loop(run):
        w = torch.zeros(1, requires_grad=True)
        run.optimizer([w])
        for _ in range(run.steps):
            clock.now += 5.0
            steps.append(run.steps)
            yield 1.0

    clock = Ticks()
    task = Task.from_function(loop, steps=10_000)
    found = measure_speed(task, Stacking(), "cpu", 10_000, most=10.0, clock=clock)
    assert found.plain.step == pytest.approx(5.0, rel=0.01)
    assert found.plain.seconds(10_000) == pytest.approx(50_000, rel=0.01)
    assert len(steps) < 10


def test_evaluation_on_validation_data_is_a_cost_per_run():
    def loop(run):
        w = torch.zeros(1, requires_grad=True)
        run.optimizer([w])
        for step in range(1, run.steps + 1):
            clock.now += 1.0
            measures = step % max(1, run.steps // 10) == 0
            clock.now += 20.0 * measures
            yield 1.0 if measures else None

    clock = Ticks()
    task = Task.from_function(loop, steps=1000)
    found = measure_speed(task, Stacking(), "cpu", 1000, most=200.0, clock=clock)
    assert found.plain.step == pytest.approx(1.0, rel=0.01)
    assert found.plain.run == pytest.approx(200.0, rel=0.15)


def test_recipes_that_are_not_rules_are_counted():
    assert plain_share(["torch:adam", "torch:adafactor", "g"]) == pytest.approx(1 / 3)
    assert plain_share([]) == 0


def test_the_ratio_of_steps_includes_what_every_run_costs():
    fixed = Speed(RunTime(1.0, 100.0), RunTime(1.0, 100.0))
    assert step_ratio(fixed, fixed, 100, 1000) == pytest.approx(1.1 / 2)


def test_a_time_that_is_too_short_leaves_nothing_behind(tmp_path):
    with pytest.raises(TaskError, match="too short for a claim"):
        optsmith.search(bowl(), storage=tmp_path, max_time="1s", workers=0, progress=False)
    assert not list(tmp_path.iterdir())


def test_the_equally_tuned_opponent_takes_as_long_as_the_search():
    preset = replace(Mixture.adapted(presets_for(300)["quick"]), equally_tuned=True)
    plan = make_plan(preset, 2700, speed(5.0, 300), 44, 2, "mixture")
    assert plan.expected["equal tuning"] == pytest.approx(plan.expected["search"], rel=0.2)
    assert plan.seconds > 0.7 * 2700  # the time is used


class Late(InProcess):
    """An executor whose workers do not start in time."""

    workers = 2

    def warm_up(self, function, timeout=None):
        self.waited = timeout
        return timeout is None


def test_workers_that_do_not_start_in_time_are_not_waited_for(tmp_path):
    executor = Late()
    with pytest.raises(TaskError, match="20 s are too short: 2 worker processes did not start"):
        optsmith.search(bowl(), storage=tmp_path, max_time="20s", executor=executor, progress=False)
    assert executor.waited == pytest.approx(8)
    assert not list(tmp_path.iterdir())


def test_a_stack_with_few_copies_costs_more_per_run():
    found = RunTime(1e-3, run=2.0, loop=8e-3)
    assert found.seconds(1000, copies=1) == pytest.approx(11)
    assert found.seconds(1000, copies=8) == pytest.approx(4)
    small = Speed(RunTime(9e-3), RunTime(1e-3, loop=8e-3))
    timing = Timing(small, small, 2, 0.0)
    preset = Mixture.adapted(presets_for(1000)["quick"])
    phases = timing.phases(preset, 18)
    # Eighteen runs side by side, and two.
    per_step = {
        p: phases[p] / sum(w.trained for w in work_of(preset, 18)[p]) for p in phases if phases[p]
    }
    assert per_step["refinement"] > 1.5 * per_step["report"]
