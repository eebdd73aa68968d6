"""Limits on the state and on the cost of a step, both counted from the program of a rule."""

from __future__ import annotations

import pytest
import torch

from optsmith import Rule, RuleOptimizer, zoo
from optsmith.optim import state_bytes
from optsmith.rules import Operator, State, operators
from optsmith.screening import Screen, state_bytes_of, step_cost_of


@pytest.mark.parametrize("name", zoo)
def test_state_is_that_of_the_optimizer(name):
    rule = zoo[name].rule
    p = torch.zeros(6, 6, requires_grad=True)  # square, as the tensor for which state is counted
    group = {"params": [p], "role": "hidden"}
    optimizer = RuleOptimizer([group], rule, lr=0.1, total_steps=3)
    p.grad = torch.ones(6, 6)
    optimizer.step()
    assert state_bytes_of(rule) == state_bytes(optimizer)


def cost(text):
    return step_cost_of(Rule.parse(text))


def test_the_cost_of_adam_is_one():
    assert cost("Adam") == 1


@pytest.mark.parametrize(
    ("cheap", "costly"),
    [
        ("g", "m1"),
        ("m1", "g + 0.9*m1"),
        ("m1", "Adam"),
        ("Adam", "ld*sign(m1) - Adam"),
        ("sqrt(|m1|)", "log(|m1|)"),
        ("m1^2", "m1^2.5"),
        ("m1*m2", "m1^m2"),
        ("g", "drop(g)"),
        ("drop(g)", "drop(g) + drop(m1)"),
    ],
)
def test_costs_are_ordered(cheap, costly):
    assert cost(cheap) < cost(costly)


def test_scalars_are_free_and_state_is_shared():
    assert cost("ld*m1") == cost("cd*m1") == cost("3*m1")
    assert cost("m1 + sign(m1)") < cost("m1 + sign(m1(0.5))")


def orthogonal(x):
    return x @ x.T @ x if x.ndim == 2 else x


def square(x, m, k):
    return (m + x @ x.T,)


def left(x):
    return x.new_zeros(x.shape[0], x.shape[0])


def test_operators_on_whole_tensors_count_matrix_products_and_their_state():
    operators.register(Operator("own_orth", 1, orthogonal, scope="tensor"))
    operators.register(
        Operator(
            "white",
            1,
            lambda x, m, k: m @ x,
            state=State(("left",), square, left),
            scope="tensor",
        )
    )
    try:
        assert cost("own_orth(g)") > 5
        assert state_bytes_of(Rule.parse("white(g) + m1")) == 8
    finally:
        operators.remove("own_orth")
        operators.remove("white")


def test_the_screen_refuses_what_exceeds_a_limit():
    adam, momentum = Rule.parse("Adam"), Rule.parse("m1")
    small, fast = Screen(max_state_bytes=4), Screen(max_step_cost=0.5)
    assert (small(adam).ok, small(adam).reason) == (False, "has too much state")
    assert (fast(adam).ok, fast(adam).reason) == (False, "has too costly a step")
    assert small(momentum).ok
    assert fast(momentum).ok
    assert Screen(max_state_bytes=8, max_step_cost=1)(adam) == Screen()(adam)
    assert small(adam).fingerprint == Screen()(adam).fingerprint


def state(text):
    return state_bytes_of(Rule.parse(text))


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("g + 0.1*w", 0),
        ("ema(g)", 1),
        ("mom(g) + m1", 1),
        ("ema(g) + ema(g, 0.99)", 2),
        ("ema(g)/sqrt(ema(g2, 0.999))", 2),
        ("prev(ema(g))", 2),
        ("orth(mom(g))", 1),
        ("whiten(g, g)", 4),
        ("whitenr(g, g)", 2),
        ("hidden(m1, Adam)", 1),
        ("hidden(Adam, m1)", 2),
    ],
)
def test_state_of_modern_operators(text, slots):
    """Of a square matrix, a slot of `whiten` is as large as the matrix."""
    assert state(text) == 4 * slots


@pytest.mark.parametrize(
    ("cheap", "costly"),
    [
        ("m1", "ema(g) + ema(g, 0.99)"),
        ("unit(g)", "orth(g)"),
        ("whitenr(g, g)", "whiten(g, g)"),
        ("whiten(g, g, 0.9, 100)", "whiten(g, g, 0.9, 10)"),
        ("whiten(g, g, 0.9, 10)", "whiten(g, g, 0.9, 1)"),
        ("hidden(m1, g)", "hidden(g, Adam)"),
        ("hidden(g, g)", "hidden(orth(g), g)"),
    ],
)
def test_costs_of_modern_operators_are_ordered(cheap, costly):
    assert cost(cheap) < cost(costly)


def test_the_cost_of_a_rule_with_roles_is_the_larger():
    assert cost("hidden(orth(m1), Adam)") == cost("orth(m1)")
    assert cost("hidden(g, Adam)") == cost("hidden(Adam, g)") == 1
