"""Short runs with random gradients, for the tests of optimizers."""

from __future__ import annotations

import torch

from optsmith import Rule, RuleOptimizer, zoo
from optsmith.rules import depends_on_role

SHAPES = ((), (1,), (3, 4), (5,))
STEPS = 50
REPRESENTATIVES = ("sgd", "momentum", "adam", "products1", "conv2", "citeseer")
"""Representatives of the rules: without state, with one slot, with two slots, with a decay, with a
power, with `drop` and a division."""

ELEMENT = "ld*ema(g, 0.8)/sqrt(ema(g^2, 0.95)) + 0.1*prev(g) + 0.001*w"
TENSOR = "fan*orth(mix(g, mom(g), 0.3))/k^0.5 + rms(w)*unit(g) + whiten(drop(g), g, 0.9, 2)"
BY_ROLE = "cos(0, 1, 0.5)*hidden(0.2*fan*orth(mom(g)), ema(g)/sqrt(ema(g^2))) + 0.001*w"
MODERN = (ELEMENT, TENSOR, BY_ROLE)
"""Representatives of the space `modern`: state of expressions and weights, whole tensors, roles."""


def normal(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def parameters(dtype=torch.float64, shapes=SHAPES, seed=0):
    return [
        torch.nn.Parameter(normal(*shape, seed=100 * seed + i, dtype=dtype))
        for i, shape in enumerate(shapes)
    ]


def clones(params):
    return [torch.nn.Parameter(p.detach().clone()) for p in params]


def gradient(p, i, t, scale=1.0):
    """Return the gradient of parameter i at step t."""
    return (scale * normal(*p.shape, seed=1000 * t + i + 7)).to(p.dtype)


def optimizer(params, name, lr=0.01, total_steps=STEPS, **settings):
    rule = zoo[name].rule if name in zoo else Rule.parse(name)
    if depends_on_role(rule) and not isinstance(params, torch.nn.Module):
        params = with_a_role(params)
    return RuleOptimizer(params, rule, lr, total_steps, **settings)


def with_a_role(params):
    """Return parameters or groups as groups with a role: groups of matrices are hidden."""
    groups = [p if isinstance(p, dict) else {"params": [p]} for p in params]
    is_hidden = [all(p.ndim > 1 for p in group["params"]) for group in groups]
    return [
        {**group, "role": "hidden" if hidden else "vector"}
        for group, hidden in zip(groups, is_hidden, strict=True)
    ]


def run(opt, steps, params=None):
    """Perform the given steps and return copies of the parameters after each."""
    params = params or [p for group in opt.param_groups for p in group["params"]]
    history = []
    for t in steps:
        for i, p in enumerate(params):
            p.grad = gradient(p, i, t)
        opt.step()
        history.append([p.detach().clone() for p in params])
    return history


def assert_same(one, two):
    """Assert that tensors, or lists and dictionaries of tensors, are bit-identical."""
    assert type(one) is type(two)
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_same(a, b)
    elif isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, two, rtol=0, atol=0, equal_nan=True)
    else:
        assert one == two


def assert_near(one, two, dtype=torch.float64, **tolerance):
    default = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2}[dtype]
    tolerance = tolerance or {"rtol": default, "atol": default}
    torch.testing.assert_close(one, two, equal_nan=True, **tolerance)
