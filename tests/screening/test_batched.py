"""The probe's forms of built-in operators, compared with the operators' own functions."""

from __future__ import annotations

import pytest
import torch

from optsmith import operators
from optsmith.rules import MODERN, OverCopies, Whole, WholeState
from optsmith.screening._apply import _stepped
from optsmith.screening._batched import batched, batched_over_steps
from optsmith.screening._sums import sums

SHAPES = [(7,), (1,), (3, 4), (5, 2), (4, 4), (2, 3, 2, 2)]
STEPS = 23


def stack(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


STATELESS = [o for o in MODERN if batched(o)]
STATEFUL = [o for o in MODERN if batched_over_steps(o)]


def test_all_unary_operators_of_whole_tensors_have_a_batched_form():
    whole = {o.name for o in MODERN if o.scope == "tensor" and o.arity}
    assert whole <= {o.name for o in (*STATELESS, *STATEFUL)}


def test_operators_of_users_have_none():
    ours = operators["orth"]
    operators.remove("orth")
    theirs = type(ours)("orth", 1, lambda x: x, scope="tensor")
    operators.register(theirs)
    try:
        assert batched(theirs) is None
    finally:
        operators.remove("orth")
        operators.register(ours)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("operator", STATELESS, ids=lambda o: o.name)
def test_without_state(operator, shape):
    x = stack(6, *shape)
    x[2], x[3] = 0.0, 1e-9 * x[3]
    one_by_one = torch.stack([Whole(operator.name, operator.torch)(row) for row in x])
    torch.testing.assert_close(batched(operator)(x), one_by_one, rtol=1e-9, atol=1e-12)


def variants(operator):
    if operator.name.startswith("whiten"):
        return [operator.variant(0.8, every) for every in (1, 2.5, 10, 100)]
    betas = [0.0, 0.5, 0.999] if operator.parameters else []
    return [operator.variant(beta) for beta in betas] or [operator]


WITH_STATE = [v for o in STATEFUL for v in variants(o)]


@pytest.mark.parametrize("steps", [range(STEPS), range(2, STEPS, 6), range(22, 23)], ids=str)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("operator", WITH_STATE, ids=str)
def test_with_state(operator, shape, steps):
    rows = [stack(STEPS, 2, *shape, seed=i) for i in range(operator.arity)]
    if operator.scope == "element":
        rows = [x.flatten(1) for x in rows]
    update, function = operator.state.update, operator.torch
    if operator.scope == "tensor":
        slots = len(operator.state.slots)
        update = OverCopies(WholeState(operator.name, update, slots, operator.arity))
        function = OverCopies(Whole(operator.name, function))
    expected = _stepped(function, update, operator, rows, [], steps)
    found = batched_over_steps(operator)(*rows, steps, *operator.values).reshape(-1)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)


def test_what_is_not_finite_stays_in_its_tensor_and_after_its_step():
    operator = operators["whiten"].variant(0.8, 2)
    x, y = stack(STEPS, 2, 3, 4), stack(STEPS, 2, 3, 4, seed=1)
    y[6, 0, 1, 1] = torch.nan
    found = batched_over_steps(operator)(x, y, range(STEPS), *operator.values)
    assert found[:6].isfinite().all()
    assert found[:, 1].isfinite().all()
    assert found[6:, 0].isnan().all()


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize("beta", [0.0, 0.9, 1.0])
def test_sums(beta, count):
    x, expected = stack(count, 3), []
    for row in x:
        expected.append(row + beta * expected[-1] if expected else row)
    for steps in (range(count), range(count - 1, count)):
        found = sums(x, steps, beta)
        torch.testing.assert_close(found, torch.stack([expected[k] for k in steps]))


def test_sums_of_what_is_not_finite():
    x = stack(40, 2)
    x[20, 0] = torch.nan
    found = sums(x, range(9, 40, 10), 0.9)
    assert found[:, 1].isfinite().all()
    assert found[:, 0].isfinite().tolist() == [True, True, False, False]
