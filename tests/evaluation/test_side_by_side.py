"""Recipes that are evaluated side by side come out as they would alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from optsmith import Objective, Protocol, Rule, Run, Status
from optsmith.evaluation import evaluate_recipe, evaluate_recipes
from optsmith.evaluation._requests import Request, serve
from optsmith.optim import parse_recipe
from optsmith.training import Stacking, Trace, train_once
from optsmith.training._stopping import Stopping
from optsmith.training._train import train
from optsmith.training.stacked._stack import arranged
from tasks_for_tests import bowl, line

STACKED = Stacking(64)
STAGE = Protocol(
    lrs=(0.001, 0.01, 0.1, 1.0), proxy_steps=20, steps=30, final_steps=30, score_seeds=3
).search_stage
RECIPES = [
    parse_recipe(r) for r in ("g", "sign(m1)", "Adam*100", "log(g - g)", "torch:adam+cosine")
]


# --- evaluations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stacking", [STACKED, Stacking(5), Stacking()], ids=["64", "5", "plain"])
@pytest.mark.parametrize("lr_search", ["grid", "halving", "auto"])
def test_evaluations_are_those_of_each_recipe_alone(lr_search, stacking):
    protocol = STAGE.protocol.replace(lr_search=lr_search, extend_grid=lr_search == "halving")
    stage = protocol.search_stage
    together = evaluate_recipes(line(), RECIPES, stage, stacking=stacking)
    for recipe, found in zip(RECIPES, together, strict=True):
        alone = evaluate_recipe(line(), recipe, stage, stacking=stacking)
        assert (found.recipe, found.status, found.trained) == (
            str(recipe), alone.status, alone.trained,
        )  # fmt: skip
        assert found.lr == pytest.approx(alone.lr)
        assert found.scores == pytest.approx(alone.scores, rel=1e-3, nan_ok=True)
        assert [p.stopped for p in found.grid] == [p.stopped for p in alone.grid]
        assert found.state_bytes == pytest.approx(alone.state_bytes, nan_ok=True)
    assert {e.status for e in together} == {Status.OK, Status.DIVERGED}


def test_a_recipe_that_fails_leaves_the_others_alone():
    def failing(run: Run):
        if str(run.recipe) == "sign(g)":
            raise ValueError("not this one")
        yield from bowl().start(run)

    task = bowl()
    task.start = failing
    recipes = [Rule.parse(r) for r in ("g", "sign(g)", "m1")]
    good, bad, also_good = evaluate_recipes(task, recipes, STAGE)
    assert (bad.status, bad.error) == (Status.FAILED, "ValueError: not this one")
    assert good.scores == evaluate_recipe(bowl(), recipes[0], STAGE).scores
    assert also_good.status is Status.OK


# --- requests ------------------------------------------------------------------------------------


def run(seed: int, recipe: str = "g", lr: float = 0.1) -> Run:
    return Run(parse_recipe(recipe), lr, seed, 10)


def requesting(*requests: Request):
    seen = []
    for request in requests:
        traces = yield request
        seen += [trace.signal for trace in traces]
    return seen


def test_what_is_requested_at_the_same_time_is_trained_together():
    calls = []

    def train(runs, stopping):
        calls.append([r.seed for r in runs])
        return [Trace([(10, float(r.seed))]) for r in runs]

    loss, other = Stopping(Objective()), Stopping(Objective(), early=True)
    one = requesting(Request((run(1), run(2)), loss), Request((run(3),), loss))
    two = requesting(Request((run(4),), loss))
    three = requesting(Request((run(5),), other), Request((run(6),), loss))
    results = serve([one, two, three], train)
    assert calls == [[1, 2, 4], [5], [3, 6]]
    assert [p.result for p in results] == [
        [[(10, float(seed))] for seed in seeds] for seeds in ((1, 2, 3), (4,), (5, 6))
    ]
    assert [p.trained for p in results] == [30, 10, 20]


def test_a_computation_may_end_at_once_or_fail_by_itself():
    def broken():
        raise KeyError("before anything")
        yield

    wanted = Request((run(1),), Stopping(Objective()))
    ended, failed, went = serve(
        [requesting(), broken(), requesting(wanted)],
        lambda runs, _: [Trace([(10, 1.0)]) for _ in runs],
    )
    assert ended.result == []
    assert isinstance(failed.result, KeyError)
    assert went.result == [[(10, 1.0)]]


# --- arrangement ---------------------------------------------------------------------------------


def test_runs_of_a_seed_stand_together_where_all_recipes_have_the_same_seeds():
    runs = [run(seed, recipe) for recipe in ("g", "m1", "Adam") for seed in (0, 1)]
    assert [runs[i].seed for i in arranged(runs)] == [0, 0, 0, 1, 1, 1]
    assert [str(runs[i].recipe) for i in arranged(runs)] == ["g", "m1", "Adam"] * 2


@pytest.mark.parametrize("left_out", [0, 3])
def test_otherwise_runs_of_a_recipe_follow_each_other(left_out):
    runs = [run(seed, recipe) for recipe in ("g", "m1") for seed in (0, 1)]
    del runs[left_out]
    random.Random(0).shuffle(runs)
    recipes = [str(runs[i].recipe) for i in arranged(runs)]
    assert recipes in (sorted(recipes), sorted(recipes, reverse=True))


def test_one_seed_needs_no_mixing_and_no_runs_no_order():
    runs = [run(0, recipe, lr) for recipe in ("g", "m1") for lr in (0.1, 0.2)]
    assert arranged(runs) == [0, 1, 2, 3]
    assert arranged([]) == []


def test_a_seed_that_diverges_leaves_the_others_as_they_were():
    """The rows are then no longer evenly spaced, and are arranged anew."""
    task, stopping = line(), Stopping(Objective())
    lrs = {("m1", 1): 1e9}
    runs = [
        replace(run(seed, recipe, lrs.get((recipe, seed), 0.1)), steps=40)
        for recipe in ("g", "m1", "Adam")
        for seed in (0, 1, 2)
    ]
    together = train(task, runs, stopping, STACKED)
    assert [bool(trace.stopped) for trace in together] == [i == 4 for i in range(9)]
    for found, one in zip(together, runs, strict=True):
        alone = train_once(task, one, stopping)
        assert len(found.signal) == len(alone.signal)
        if not found.stopped:
            values, others = ([value for _, value in t.signal] for t in (found, alone))
            assert values == pytest.approx(others, rel=1e-4, abs=1e-6)
            assert found.metrics == pytest.approx(alone.metrics, rel=1e-4)
