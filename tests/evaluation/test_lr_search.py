"""How learning rates are found."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from optsmith import Rule
from optsmith.evaluation import GridPoint, evaluate_recipe
from optsmith.evaluation._lr_search import tune
from optsmith.evaluation._size import unit_lr
from optsmith.optim import baselines, parse_recipe
from tasks_for_tests import PROTOCOL, bowl, line

AUTO = replace(PROTOCOL.search_stage, lr_search="auto")
CPU = torch.device("cpu")


def trying(score):
    """Return an attempt with a given score, and the list of what it was asked."""
    asked = []

    def attempt(lrs, seed):
        asked.extend((lr, seed) for lr in lrs)
        return [GridPoint(lr, score(lr, seed)) for lr in lrs]

    return attempt, asked


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
    units = [unit_lr(line(), r, AUTO, CPU) for r in (Rule.parse(rule), baselines[f"torch:{name}"])]
    assert units[0] * scale == pytest.approx(units[1])


@pytest.mark.parametrize("rule", ["g - g", "log(g - g)"])
def test_updates_without_a_size_fall_back_to_the_grid(rule):
    attempt, asked = trying(lambda lr, seed: 1.0)
    tune(bowl(), Rule.parse(rule), AUTO, CPU, attempt)
    assert [lr for lr, _ in asked] == [0.01, 0.1, 1.0]


@pytest.mark.parametrize("best", [1e-6, 1e-3, 0.1, 1.0, 1e3])
def test_auto_finds_the_best_wherever_it_lies(best):
    attempt, _ = trying(lambda lr, seed: abs(math.log10(lr / best)))
    tuned = tune(bowl(), Rule.parse("g"), AUTO, CPU, attempt)
    assert abs(math.log10(tuned.best.lr / best)) <= 0.126  # half of the finest distance
    assert [p.lr for p in tuned.points] == sorted(p.lr for p in tuned.points)
    assert tuned.best.lr not in (tuned.points[0].lr, tuned.points[-1].lr)


def test_what_is_close_is_tried_with_a_second_seed():
    """The first seed's luck at a larger learning rate does not decide."""
    first, second = AUTO.lr_seeds

    def score(lr, seed):
        place = math.log10(lr)
        return abs(place - 0.5) if seed == first else 5 * max(0.0, place + 0.01)

    attempt, asked = trying(score)
    tuned = tune(bowl(), Rule.parse("g"), AUTO, CPU, attempt)
    assert len([1 for _, seed in asked if seed == second]) == 3
    assert math.log10(tuned.best.lr) < 0.4


def test_one_stopped_run_rules_a_learning_rate_out():
    def attempt(lrs, seed):
        bad = seed == AUTO.lr_seeds[1]
        return [
            GridPoint(lr, None, "no") if bad and lr > 0.9 else GridPoint(lr, 1 / lr) for lr in lrs
        ]

    tuned = tune(bowl(), Rule.parse("g"), AUTO, CPU, attempt)
    assert tuned.best is None or tuned.best.lr <= 0.9


def test_the_grid_is_left_as_it_is_unless_asked():
    attempt, asked = trying(lambda lr, seed: 1 / lr)
    tuned = tune(bowl(), Rule.parse("g"), PROTOCOL.search_stage, CPU, attempt)
    assert asked == [(0.01, 0), (0.1, 0), (1.0, 0)]
    assert tuned.best.lr == 1.0


def test_auto_makes_rules_of_other_scales_equal():
    """`Adam` is a 333rd of torch's: on a fixed grid it cannot move, placed by its size it can."""
    task = line()
    small, large = (
        evaluate_recipe(task, parse_recipe(r), AUTO) for r in ("Adam", "Adam*1000")
    )  # fmt: skip
    assert small.score == pytest.approx(large.score, rel=1e-3)
    assert small.lr == pytest.approx(1000 * large.lr)
