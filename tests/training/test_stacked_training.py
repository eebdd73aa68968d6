"""Stacked training gives the same traces as plain training."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from inspect import signature

import pytest
import torch
from stack_samples import (
    CPU,
    LRS,
    PROTOCOL,
    SEEDS,
    STEPS,
    digits,
    never,
    perceptron,
    runs_of,
    same,
    sorting,
)
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from optsmith import Rule, Run, Task, zoo
from optsmith.optim import Baseline, form_of, modern
from optsmith.training import Stacking, _train, train_once
from optsmith.training._stopping import NOT_FINITE, Stopping
from optsmith.training.stacked import _stack as _stacked
from optsmith.training.stacked import _stacking
from optsmith.training.stacked._check import check_stack, footprint
from optsmith.training.stacked._perceptron import ELEMENTWISE
from optsmith.training.stacked._stacking import stacks
from tasks_for_tests import line


class Residual(nn.Module):
    """Needs vmap; one parameter is large enough for a separate matrix."""

    def __init__(self):
        super().__init__()
        self.wide, self.back = nn.Linear(12, 400), nn.Linear(400, 12)
        self.norm, self.out = nn.LayerNorm(12), nn.Linear(12, 5)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.out(self.norm(x + self.back(self.wide(x).relu())) * self.scale)


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.out = nn.Linear(12, 7), nn.BatchNorm1d(7), nn.Linear(7, 5)

    def forward(self, x):
        return self.out(self.norm(self.first(x)).relu())


MODELS = {
    "perceptron": perceptron,
    "flatten first": lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 5, bias=False)),
    "residual": Residual,
    "an instance": nn.Sequential(nn.Linear(12, 5), nn.ReLU()),
    "double precision": lambda: perceptron().double(),
    "batch norm": Normalized,
}


def task_of(name):
    if name != "double precision":
        return sorting(MODELS[name])
    x, y = digits()
    return Task.from_module(
        MODELS[name], (x.double(), y), cross_entropy, batch_size=16, protocol=PROTOCOL
    )


def pairs_of(recipes):
    """Return two runs per recipe, with different learning rates and seeds."""
    return [Run(r, lr, s, STEPS) for r in recipes for lr, s in zip(LRS, SEEDS, strict=True)]


def stacking_of(task):
    """Return a stacking of up to 64 copies, whatever the size of the model."""
    check_stack(task, CPU)
    one = footprint(task, CPU)
    return Stacking(64, one.parameters, one.activations)


def train(task, runs, stopping):
    return _train.train(task, runs, stopping, stacking_of(task))


def check(task, runs, stopping=None, tolerance=1e-4):
    """Compare stacked with plain training; fail if nothing was stacked."""
    assert any(len(members) > 1 for members in stacks(stacking_of(task), runs))
    stopping = stopping or never(task)
    traces = train(task, runs, stopping)
    for trace, run in zip(traces, runs, strict=True):
        same(trace, train_once(task, run, stopping), tolerance)
    return traces


# --- equal to the plain loop ---------------------------------------------------------------------


def test_every_zoo_rule_in_one_call():
    every = [entry.rule for entry in zoo.values()]
    # Signs of small numbers make differences in rounding larger.
    traces = check(sorting(), pairs_of(every), tolerance=1e-3)
    assert len({t.signal[-1] for t in traces}) > 1.5 * len(every)  # not all the same run


def test_every_baseline_that_is_a_rule_in_one_call():
    forms = [baseline for baseline in modern.values() if form_of(baseline) is not None]
    assert len(forms) == 10 * 4
    # torch's Muon iterates in bfloat16: see tests/optim/test_roles.py.
    exact = [baseline for baseline in forms if baseline.optimizer != "muon"]
    check(sorting(), pairs_of([*exact, zoo["mnist1"].rule]))


def test_muon_in_a_stack_learns_as_in_the_plain_loop():
    task, recipe = sorting(), Baseline("muon", "cosine")
    if recipe.missing:
        pytest.skip(recipe.missing)
    runs = pairs_of([recipe])
    stacked = train(task, runs, never(task))
    for trace, run in zip(stacked, runs, strict=True):
        plain = train_once(task, run, never(task))
        assert trace.signal[0] == pytest.approx(plain.signal[0], rel=1e-4)
        assert trace.signal[-1] == pytest.approx(plain.signal[-1], rel=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_that_can_be_stacked(name):
    recipes = [zoo["adam"].rule, zoo["conv1"].rule]
    task = task_of(name)
    check(task, runs_of(recipes, final=True))
    check(task, runs_of(recipes, seeds=(3,)))


@pytest.mark.parametrize("layer", ELEMENTWISE)
def test_activations_are_element_wise(layer):
    """So they may be applied to the transposed activations of a stack."""
    values = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(layer()(values.T.contiguous()).T, layer()(values))


# Three with an explicit backward pass, three without; some support in-place operation.
@pytest.mark.parametrize("layer", [nn.ReLU, nn.Sigmoid, nn.Tanh, nn.GELU, nn.CELU, nn.Identity])
def test_activations_train_as_in_the_plain_loop(layer):
    def make(**settings):
        return nn.Sequential(
            nn.Linear(12, 6), layer(**settings), layer(), nn.Linear(6, 5, bias=False), layer()
        )

    inplace = "inplace" in signature(layer).parameters
    for module in (make, *([partial(make, inplace=True)] if inplace else [])):
        check(sorting(module), runs_of([zoo["adam"].rule]))


def test_other_losses():
    task = line()
    check(task, runs_of([zoo["adam"].rule], final=True))
    soft = torch.rand(200, 5, generator=torch.Generator().manual_seed(1)).softmax(dim=1)
    probabilities = Task.from_module(
        perceptron, (digits()[0], soft), cross_entropy, batch_size=16, protocol=PROTOCOL
    )
    check(probabilities, runs_of([zoo["adam"].rule]))


def test_examples_without_a_class_do_not_count():
    x, y = digits()
    y = y.where(torch.arange(len(y)) % 3 > 0, -100)
    task = Task.from_module(perceptron, (x, y), cross_entropy, batch_size=16, protocol=PROTOCOL)
    check(task, runs_of([zoo["adam"].rule]))


@pytest.mark.parametrize("rule", ["drop(g)", "drop(drop(m1), rate=0.5)", "m1 - drop(g3)"])
def test_masks_are_those_of_the_plain_run(rule):
    recipes = [Rule.parse(rule)]
    check(sorting(), runs_of(recipes, seeds=(0, 1, 2**40)))
    check(sorting(), runs_of(recipes, lrs=(0.1, 0.2, 0.3), seeds=(7,)))


@pytest.mark.parametrize("final", [False, True])
def test_metrics_at_the_end_are_those_of_the_plain_run(final):
    traces = check(sorting(), runs_of([zoo["adam"].rule], final=final))
    assert [set(t.metrics) for t in traces] == [
        {"test loss", "test accuracy"} if final else set()
    ] * len(traces)


@pytest.mark.parametrize("final", [False, True])
def test_a_signal_from_validation_data(final):
    task = sorting(validation=digits(60, 2))
    traces = check(task, runs_of([zoo["adam"].rule], steps=45, final=final))
    steps = [step for step, _ in traces[0].signal]
    assert steps == [4, 8, 12, 15, 19, 23, 27, 30, 34, 38, 41, 42, 43, 44, 45]


def item_metric(output, target):
    """Cannot run under vmap."""
    return (output.argmax(dim=1) == target).float().mean().item()


HELD_OUT = {
    "loss": {"metric": None},
    "metric": {},
    "metric without vmap": {"metric": item_metric},
    "batch norm": {"module": Normalized, "metric": None, "recipe": "sgd"},
    "residual": {"module": Residual, "metric": None},
    "small pieces": {"measure_size": 7, "metric": None},
    "loader": {"validation": [digits(30, 2), digits(11, 3)], "metric": None},
}


@pytest.mark.parametrize("kind", HELD_OUT)
def test_held_out_signals_are_those_of_the_plain_run(kind):
    settings = {"objective": None} | HELD_OUT[kind]
    # Before batch norm, the gradient of a bias is rounding noise, which Adam scales up.
    recipe = zoo[settings.pop("recipe", "adam")].rule
    task = sorting(**settings)
    assert task.objective.over == "tail"
    traces = check(task, runs_of([recipe, Rule.parse("2*g")], lrs=(0.03, 0.3)))
    assert len({tuple(trace.signal) for trace in traces}) > 2


def test_a_mean_of_some_rows_is_taken_over_the_batches_of_the_plain_run():
    """The mean of a loss that ignores examples depends on the batches it is taken over."""
    x, y = digits(300)
    y = y.where(torch.arange(len(y)) % 7 > 4, -100)
    task = sorting(validation=(x, y), metric=None, measure_size=64)
    check(task, runs_of([zoo["adam"].rule], lrs=[i / 100 for i in range(1, 9)]))


@pytest.mark.parametrize("steps", [1, 9, 10, 11])
def test_runs_of_any_length(steps):
    check(sorting(), runs_of([zoo["adam"].rule], steps=steps))


def test_runs_of_several_lengths_in_one_call():
    recipes = [zoo["adam"].rule]
    check(sorting(), [*runs_of(recipes, steps=11), *runs_of(recipes, steps=20, final=True)])


def test_torch_s_generator_is_left_as_it_was():
    before = torch.get_rng_state()
    train(sorting(), runs_of([zoo["adam"].rule]), never(sorting()))
    assert torch.equal(torch.get_rng_state(), before)


def test_mse_on_three_dimensional_inputs_goes_by_vmap():
    x = torch.randn(60, 3, 4, generator=torch.Generator().manual_seed(0))
    task = Task.from_module(
        lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)),
        (x, x.sum(dim=2, keepdim=True)),
        mse_loss,
        batch_size=8,
        protocol=PROTOCOL,
    )
    check(task, runs_of([zoo["adam"].rule]))


# --- stopping ------------------------------------------------------------------------------------


def test_copies_that_diverge_leave_and_the_others_go_on():
    task = line()
    recipes = [zoo["sgd"].rule, Rule.parse("log(g - g)"), zoo["adam"].rule, Rule.parse("g^g")]
    lrs = (0.01, 1e30, 0.1, 30.0)
    traces = check(task, runs_of(recipes, lrs, steps=60))
    assert {t.stopped for t in traces} == {"", NOT_FINITE}
    assert all(math.isfinite(v) for t in traces if not t.stopped for _, v in t.signal)
    assert {t.signal[-1][0] for t in traces} >= {10, 60}


def test_a_stack_in_which_nothing_is_left():
    traces = check(line(), runs_of([zoo["sgd"].rule], (1e30, 1e35), steps=60))
    assert {(t.stopped, t.signal[-1][0]) for t in traces} == {(NOT_FINITE, 10)}


def test_a_run_that_goes_wrong_at_the_very_end_is_stopped_after_it():
    traces = check(line(), runs_of([zoo["sgd"].rule], (1e30, 0.01), steps=9, final=True))
    assert [t.stopped for t in traces] == [NOT_FINITE, ""] * 2


def test_a_loss_that_keeps_rising_is_given_up_at_the_same_step():
    task = line()
    ascent = [Rule.parse("-g"), zoo["sgd"].rule]
    traces = check(task, runs_of(ascent, (0.1, 0.2), steps=200), Stopping(task.objective, True))
    assert [bool(t.stopped) for t in traces] == [True, True, False, False] * 2
    assert {t.signal[-1][0] for t in traces} == {40, 200}


# --- determinism ---------------------------------------------------------------------------------


@pytest.fixture(params=["perceptron", "residual"])
def mixture(request):
    recipes = [zoo["mnist1"].rule, zoo["conv1"].rule, modern["torch:adam"], zoo["sgd"].rule]
    return task_of(request.param), runs_of(recipes, (0.01, 1e30, 0.3), final=True)


def signals(task, runs):
    return {
        (str(r.recipe), r.lr, r.seed): ([repr(v) for v in t.signal], t.stopped, repr(t.metrics))
        for r, t in zip(runs, train(task, runs, never(task)), strict=True)
    }


def test_the_same_call_gives_the_same_bits(mixture):
    assert signals(*mixture) == signals(*mixture)


def test_the_order_of_runs_does_not_matter(mixture):
    task, runs = mixture
    assert signals(task, runs) == signals(task, runs[::-1])


def test_an_equal_task_gives_the_same_bits(mixture):
    task, runs = mixture
    again = task_of("perceptron" if len(list(task.make(CPU).parameters())) == 6 else "residual")
    assert signals(task, runs) == signals(again, runs)


# --- size ----------------------------------------------------------------------------------------


def test_what_does_not_fit_is_split_evenly(monkeypatch):
    task, runs = sorting(), runs_of([zoo["adam"].rule], lrs=[i / 100 for i in range(1, 6)])
    stacking = stacking_of(task)
    assert [len(s) for s in stacks(stacking, runs)] == [10]
    assert [len(s) for s in stacks(replace(stacking, copies=4), runs)] == [3, 3, 4]
    one = stacking.copy_bytes(slots=2)
    monkeypatch.setattr(_stacking, "MOST_BYTES", 6 * one)
    assert [len(s) for s in stacks(stacking, runs)] == [5, 5]
    check(task, runs)
    monkeypatch.setattr(_stacking, "MOST_BYTES", one // 2)
    assert [len(s) for s in stacks(stacking, runs)] == [1] * 10


def test_the_estimate_counts_parameters_state_and_activations():
    task = sorting()
    one = footprint(task, CPU)
    assert one.parameters == 4 * (12 * 8 + 8 + 8 * 6 + 6 + 6 * 5 + 5)
    assert one.activations >= 4 * 16 * (12 + 8 + 6 + 5)
    stacking = stacking_of(task)
    plain, rich = (stacking.copy_bytes(slots) for slots in (0, 4))
    assert plain == 4 * one.parameters + 2 * one.activations
    assert rich - plain == 4 * one.parameters


def test_a_stack_makes_each_seed_s_model_once(monkeypatch):
    made = []

    def make():
        made.append(torch.initial_seed())
        return perceptron()

    task = sorting(make)
    made.clear()
    _stacked.train_stack(task, runs_of([zoo["adam"].rule]), never(task))
    assert made == [0, 1]
