"""How learning rates are found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch

from optsmith import Objective, Rule, Run, Task
from optsmith.evaluation import evaluate_recipe
from optsmith.evaluation._lr_search import tune
from optsmith.evaluation._requests import serve
from optsmith.evaluation._size import unit_lr
from optsmith.optim import classic, parse_recipe
from optsmith.training import Stacking, Trace, train_once
from optsmith.training._race import race
from optsmith.training._stopping import Stopping
from tasks_for_tests import PROTOCOL, bowl, line, quadratic

AUTO = PROTOCOL.replace(lr_search="auto").search_stage
CPU = torch.device("cpu")


def tuned_by(task, recipe, stage, train):
    """Return the result of a learning-rate search whose runs `train` pretends to train."""
    (served,) = serve([tune(task, recipe, stage, CPU)], train)
    return served.result


def trying(score):
    """Return training that gives each run this score (None: stopped), and the runs it got."""
    asked = []

    def train(runs, stopping):
        asked.extend((run.lr, run.seed) for run in runs)
        scores = [score(run.lr, run.seed) for run in runs]
        return [Trace([(1, s)]) if s is not None else Trace([(1, 0.0)], "no") for s in scores]

    return train, asked


def test_the_unit_is_the_learning_rate_at_which_updates_are_as_large_as_the_weights():
    """For sign(g) an update has size 1, so it is the size of the weights; scale goes out."""
    task = bowl()
    torch.manual_seed(0)
    w = torch.randn(3)
    unit = unit_lr(task, Rule.parse("sign(g)"), AUTO, CPU)
    assert unit == pytest.approx(float(w.square().mean().sqrt()), rel=1e-3)
    assert unit_lr(task, Rule.parse("4*sign(g)"), AUTO, CPU) == pytest.approx(unit / 4)
    # The gradient of the bowl is the weights themselves.
    assert unit_lr(task, Rule.parse("g"), AUTO, CPU) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("name", ["adam", "rmsprop", "nesterov"])
def test_baselines_are_placed_as_the_same_rules_are(name):
    rule, scale = {
        "adam": ("Adam", 3e-3), "rmsprop": ("RMSprop", 3e-2), "nesterov": ("g + 0.9*m1", 1.0),
    }[name]  # fmt: skip
    units = [unit_lr(line(), r, AUTO, CPU) for r in (Rule.parse(rule), classic[f"torch:{name}"])]
    assert units[0] * scale == pytest.approx(units[1])


@pytest.mark.parametrize("rule", ["g - g", "log(g - g)"])
def test_updates_without_a_size_fall_back_to_the_grid(rule):
    train, asked = trying(lambda lr, seed: 1.0)
    tuned_by(bowl(), Rule.parse(rule), AUTO, train)
    assert [lr for lr, _ in asked] == [0.01, 0.1, 1.0]


@pytest.mark.parametrize("best", [1e-6, 1e-3, 0.1, 1.0, 1e3])
def test_auto_finds_the_best_wherever_it_lies(best):
    train, _ = trying(lambda lr, seed: abs(math.log10(lr / best)))
    tuned = tuned_by(bowl(), Rule.parse("g"), AUTO, train)
    assert abs(math.log10(tuned.best.lr / best)) <= 0.126  # half of the finest distance
    assert [p.lr for p in tuned.points] == sorted(p.lr for p in tuned.points)
    assert tuned.best.lr not in (tuned.points[0].lr, tuned.points[-1].lr)


def test_what_is_close_is_tried_with_a_second_seed():
    """The first seed's luck at a larger learning rate does not decide."""
    first, second = AUTO.lr_seeds

    def score(lr, seed):
        place = math.log10(lr)
        return abs(place - 0.5) if seed == first else 5 * max(0.0, place + 0.01)

    train, asked = trying(score)
    tuned = tuned_by(bowl(), Rule.parse("g"), AUTO, train)
    assert len([1 for _, seed in asked if seed == second]) == 3
    assert math.log10(tuned.best.lr) < 0.4


def test_one_stopped_run_rules_a_learning_rate_out():
    def score(lr, seed):
        return None if seed == AUTO.lr_seeds[1] and lr > 0.9 else abs(math.log(lr))

    train, _ = trying(score)
    tuned = tuned_by(bowl(), Rule.parse("g"), AUTO, train)
    assert tuned.best.lr < 0.9


def test_the_grid_is_left_as_it_is_unless_asked():
    train, asked = trying(lambda lr, seed: 1 / lr)
    tuned = tuned_by(bowl(), Rule.parse("g"), PROTOCOL.search_stage, train)
    assert asked == [(0.01, 0), (0.1, 0), (1.0, 0)]
    assert tuned.best.lr == 1.0


@pytest.mark.parametrize("lr_search", ["grid", "halving", "auto"])
def test_a_fixed_learning_rate_is_not_tuned(lr_search):
    stage = PROTOCOL.replace(lr_search=lr_search).search_stage.at(lr=0.02)
    found = evaluate_recipe(bowl(), Rule.parse("g"), stage)
    assert (found.lr, found.grid, found.at_edge) == (0.02, (), False)
    assert found.trained == len(stage.seeds) * stage.steps


def test_the_place_of_a_learning_rate_is_found_without_held_out_data():
    seen = []

    def watching(run):
        seen.append(run.final)
        yield from quadratic(run)

    task = Task.from_function(watching, protocol=PROTOCOL)
    unit_lr(task, Rule.parse("g"), PROTOCOL.replace(lr_search="auto").final_stage, CPU)
    assert set(seen) == {False}


@dataclass
class Bowl(Task):
    """A task that defines equality, and so has no hash."""

    name: str = "bowl"
    description: str = ""
    objective: Objective = field(default_factory=Objective)
    presets: dict = field(default_factory=dict)

    def start(self, run):
        return quadratic(run)


def test_auto_places_learning_rates_of_tasks_written_as_dataclasses():
    record, known = (evaluate_recipe(task, Rule.parse("g"), AUTO) for task in (Bowl(), bowl()))
    assert record.lr == known.lr
    assert record.scores == known.scores


def test_auto_makes_rules_of_other_scales_equal():
    """`Adam` is a 333rd of torch's: on a fixed grid it cannot move, placed by its size it can."""
    task = line()
    small, large = (
        evaluate_recipe(task, parse_recipe(r), AUTO) for r in ("Adam", "Adam*1000")
    )  # fmt: skip
    assert small.score == pytest.approx(large.score, rel=1e-3)
    assert small.lr == pytest.approx(1000 * large.lr)


# --- halving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stacked", [True, False])
def test_halving_gives_up_the_worse_half_twice(stacked):
    stacking = Stacking(64 if stacked else 1)
    task, lrs = line(), (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.15, 0.2)
    protocol = PROTOCOL.replace(lrs=lrs, proxy_steps=40, lr_search="halving")
    record, whole = (
        evaluate_recipe(task, Rule.parse("g"), s, stacking=stacking)
        for s in (protocol.search_stage, protocol.replace(lr_search="grid").search_stage)
    )
    assert record.lr == whole.lr
    assert record.scores == whole.scores
    through = [p for p in record.grid if p.score is not None]
    assert len(through) == 2  # of seven, four after a quarter, two after half
    assert {p.stopped for p in record.grid if p.score is None} == {"in the worse half at a rung"}
    full = {p.lr: p.score for p in whole.grid}
    for point in through:
        assert point.score == pytest.approx(full[point.lr], rel=1e-4)


def test_racing_runs_are_trained_as_they_would_be_alone():
    """Random numbers of runs that take turns do not mix."""

    def noisy(run):
        w = torch.ones(3, requires_grad=True)
        optimizer = run.optimizer([w])
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = (w * torch.randn(3)).square().sum()  # from torch's own generator
            loss.backward()
            optimizer.step()
            yield loss.detach()

    task = Task.from_function(noisy, protocol=PROTOCOL)
    runs = [Run(Rule.parse("g"), lr, 5, 40) for lr in (1e-3, 1e-2, 2e-2, 3e-2)]
    raced = race(task, runs, Stopping(task.objective, halving=True))
    alone = [train_once(task, run) for run in runs]
    assert sum(not trace.stopped for trace in raced) == 1
    for one, other in zip(raced, alone, strict=True):
        assert list(one.signal) == list(other.signal)[: len(one.signal)]


def test_a_rung_is_passed_once():
    stopping = Stopping(Objective(), halving=True)
    for steps in (10, 37, 40, 100, 1000):
        looks = range(10, steps + 1, 10)
        assert sum(stopping.is_rung(step, step - 10, steps) for step in looks) == len(
            {-(-part * steps // 10) for part in (0.25, 0.5)}
        )
    assert not Stopping(Objective()).is_rung(30, 20, 100)


def test_the_better_half_stays():
    stopping = Stopping(Objective(), halving=True)
    signals = [[(1, 3.0)], [(1, 1.0)], [(1, 2.0)], [(1, 2.0)], [(1, 5.0)]]
    assert stopping.worse_half(signals) == [0, 4]
    assert stopping.worse_half([[(1, 1.0)]]) == []
    assert stopping.worse_half([[], []]) == []
    up = Stopping(Objective("accuracy", "maximize", "last"), halving=True)
    assert up.worse_half(signals) == [1, 3]
