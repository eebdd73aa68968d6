"""Short runs with random gradients, for the tests of optimizers."""

from __future__ import annotations

import torch

from optsmith import Rule, RuleOptimizer, zoo

SHAPES = ((), (1,), (3, 4), (5,))
STEPS = 50
REPRESENTATIVES = ("sgd", "momentum", "adam", "products1", "conv2", "citeseer")
"""Representatives of the rules: without state, with one slot, with two slots, with a decay, with a
power, with `drop` and a division."""


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
    return RuleOptimizer(params, rule, lr, total_steps, **settings)


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
