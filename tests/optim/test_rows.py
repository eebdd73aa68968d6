"""Rows of a stack compared with one optimizer per row."""

from __future__ import annotations

import pytest
import torch
from runs import SHAPES, STEPS, assert_near, gradient, optimizer, parameters, run

from optsmith import Rule, zoo
from optsmith.optim import modern
from optsmith.training.stacked import _row_programs
from optsmith.training.stacked._columns import Columns
from optsmith.training.stacked._rows import RowOptimizer

LRS = (0.01, 0.1, 0.003, 0.02)
SEEDS = (0, 0, 5, 5)
FEW = 8
FORMS = [b for b in modern.values() if b.as_rule() is not None and not b.known.takes_model]
MATRICES = ([2], [0, 1, 3])  # the parameters in each
TEXTS = ("ld", "1", "drop(drop(g) + g3)", "drop(g, rate=0.5)*m1", "cd/m1", "m1^2", "sign(g)^g")


@pytest.fixture(params=[5, 24, 1 << 17], ids=["columns", "rows", "whole"])
def pieces(request, monkeypatch):
    """Split matrices of 4 rows and 12 and 7 columns within rows, between rows, and not at all."""
    monkeypatch.setattr(_row_programs, "PIECE", request.param)


def columns():
    return [Columns(tuple(m), tuple(SHAPES[i] for i in m)) for m in MATRICES]


def rows_of(tensors):
    """Return the tensors of a model as one row per matrix."""
    return [torch.cat([tensors[i].detach().reshape(1, -1) for i in m], dim=1) for m in MATRICES]


def stack(copies):
    return [torch.cat(matrices) for matrices in zip(*map(rows_of, copies), strict=True)]


def starts(count):
    return [parameters(seed=i) for i in range(count)]


def gradients(params, t):
    """Return the gradients of step t, the same for each row and as `run` computes them."""
    return [gradient(p, i, t) for i, p in enumerate(params)]


def step(rows, copies, t):
    rows.step(stack([gradients(c, t) for c in copies]))


def last_of_each(rule, lrs=LRS, seeds=SEEDS, steps=STEPS):
    """Return the final parameters of one optimizer per row."""
    each = [
        run(optimizer(c, rule, lr, seed=s), range(1, steps + 1))[-1]
        for c, lr, s in zip(starts(len(lrs)), lrs, seeds, strict=True)
    ]
    return stack(each)


def parse(name):
    return zoo[name].rule if name in zoo else Rule.parse(name)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", ["products1", "citeseer", *TEXTS])
def test_each_row_is_trained_as_by_an_optimizer_of_its_own(name):
    copies = starts(4)
    matrices = stack(copies)
    rows = RowOptimizer(parse(name), matrices, columns(), LRS, SEEDS, STEPS)
    for t in range(1, FEW + 1):
        step(rows, copies, t)
    assert_near(matrices, last_of_each(name, steps=FEW), rtol=1e-9, atol=1e-12)


def test_rows_of_a_larger_matrix_are_trained_in_place_and_others_left_alone():
    copies = starts(4)
    whole = stack(copies)
    before = [matrix.clone() for matrix in whole]
    rows = RowOptimizer(parse("adam"), [m[1:3] for m in whole], columns(), LRS[:2], (0, 0), STEPS)
    step(rows, copies[1:3], 1)
    for matrix, old in zip(whole, before, strict=True):
        assert torch.equal(matrix[[0, 3]], old[[0, 3]])
        assert (matrix[1:3] != old[1:3]).all()


@pytest.mark.parametrize("name", ["mnist1", "citeseer"])
def test_rows_that_are_left_go_on_as_before(name):
    copies = starts(4)
    matrices = stack(copies)
    rows = RowOptimizer(parse(name), matrices, columns(), LRS, SEEDS, STEPS)
    for t in range(1, STEPS + 1):
        if t == 20:
            matrices = [m[[0, 2, 3]] for m in matrices]
            rows.keep([0, 2, 3], matrices)
            copies = [copies[i] for i in (0, 2, 3)]
        step(rows, copies, t)
    assert_near(matrices, [m[[0, 2, 3]] for m in last_of_each(name)], rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", ["mnist1", "conv1"])
def test_what_is_not_finite_stays_in_its_row(name):
    copies = starts(4)
    matrices = stack(copies)
    rows = RowOptimizer(parse(name), matrices, columns(), LRS, SEEDS, STEPS)
    for t in range(1, FEW + 1):
        every = stack([gradients(c, t) for c in copies])
        for g in every:
            g[1], g[3] = float("nan"), float("inf")
        rows.step(every)
    expected = last_of_each(name, steps=FEW)
    for matrix, other in zip(matrices, expected, strict=True):
        assert not matrix[[1, 3]].isfinite().any()
        assert_near(matrix[[0, 2]], other[[0, 2]], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("baseline", FORMS, ids=str)
def test_a_baseline_as_a_rule_is_torch_s_own(baseline):
    lrs = (0.01, 0.3)
    copies = starts(2)
    matrices = stack(copies)
    form = baseline.as_rule()
    rows = RowOptimizer(
        form.rule,
        matrices,
        columns(),
        [lr * form.scale for lr in lrs],
        (0, 0),
        STEPS,
    )
    for t in range(1, STEPS + 1):
        step(rows, copies, t)
    pairs = zip(starts(2), lrs, strict=True)
    each = [run(baseline.build(c, lr, STEPS), range(1, STEPS + 1))[-1] for c, lr in pairs]
    # torch keeps the product of NAdam's momenta in single precision.
    tolerance = 1e-7 if baseline.optimizer == "nadam" else 1e-9
    assert_near(matrices, stack(each), rtol=tolerance, atol=tolerance)


# --- rules that differ in constants ---------------------------------------------------------------

SETTINGS = {
    "coefficient": "{0}*g + 0.1*w",
    "averages": "ema(g, {0})/(ema(g^2, {1})^0.5 + 1e-8)",
    "momentum": "mix(mom(g, {0}), g, {1})",
    "decays": "wu({0})*lin({1}, 1, 0.1)*g",
    "power of a decay": "cd^{0}*m1 + relu(prev(g))*{1}",
    "bounds": "max(min(g, {0}), -{1}*sign(g))",
    "clip": "clip(g, {0}) + {1}",
    "random": "drop(mom(g, {0}), rate={1})",
    "orthogonal": "0.2*fan*orth(mix(g, ema(g, {0}), {1}))",
    "norms": "{0}*unit(ema(g, {1})) + rms(w)*rows(g) - cols(g)",
    "whiten": "whiten(ema(g, {0}), g, {1}, 3)",
    "one side": "whitenr(g, g, {0}, 2) + whitenc(mom(g, {0}), g, {1}, 3)",
    "roles": "hidden({0}*orth(mom(g, {1})), ema(g, {1})/(ema(g^2, 0.999)^0.5 + 1e-8))",
    "roles, elements": "hidden(mom(g, {0}), {1}*g)*ld",
}
PAIRS = ((0.5, 0.9), (0.25, 0.8), (0.9, 0.5), (0.3, 0.6))
HIDDEN = frozenset({2})


def of_roles(params):
    """Return parameter groups: the matrix is hidden, in the order of the parameters."""
    roles = ["hidden" if i in HIDDEN else "vector" for i in range(len(params))]
    return [{"params": [p], "role": role} for p, role in zip(params, roles, strict=True)]


def last_of_settings(rules, steps):
    """Return the final parameters of one optimizer per row, each with its rule."""
    each = []
    for c, rule, lr, seed in zip(starts(4), rules, LRS, SEEDS, strict=True):
        opt = optimizer(of_roles(c), str(rule), lr, seed=seed)
        each.append(run(opt, range(1, steps + 1), c)[-1])
    return stack(each)


def settings_of(name):
    return [Rule.parse(SETTINGS[name].format(*pair)) for pair in PAIRS]


def with_settings(name, matrices):
    return RowOptimizer(settings_of(name), matrices, columns(), LRS, SEEDS, STEPS, hidden=HIDDEN)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", SETTINGS)
def test_rows_with_constants_of_their_own(name):
    copies = starts(4)
    matrices = stack(copies)
    rows = with_settings(name, matrices)
    for t in range(1, FEW + 1):
        step(rows, copies, t)
    expected = last_of_settings(settings_of(name), FEW)
    assert_near(matrices, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_that_are_left_keep_their_constants(name):
    copies, left = starts(4), [3, 1]
    matrices = stack(copies)
    rows = with_settings(name, matrices)
    for t in range(1, FEW + 1):
        if t == 4:
            matrices = [m[left] for m in matrices]
            rows.keep(left, matrices)
            copies = [copies[i] for i in left]
        step(rows, copies, t)
    expected = last_of_settings(settings_of(name), FEW)
    assert_near(matrices, [m[left] for m in expected], rtol=1e-9, atol=1e-11)


def test_only_the_state_that_the_rule_needs():
    shapes = {"sgd": 0, "adam": 2, "mnist1": 4}
    for name, slots in shapes.items():
        rows = RowOptimizer(parse(name), stack(starts(4)), columns(), LRS, SEEDS, STEPS)
        assert rows.state_bytes() == 8 * slots * 18 / 19  # a single number does not count
