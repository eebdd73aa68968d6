"""Stacks on a device other than the CPU, tested on `meta`, where tensors have no values."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Protocol, Run, Task, zoo
from optsmith.optim import parse_recipe
from optsmith.training.stacked._stack import Stack, arranged

META = torch.device("meta")
NUMBER_FIRST = {"mnist3", "stsb", "lamb"}
"""Rules with a number divided by, raised to or minus a tensor: it fails on `meta`, not on a GPU."""
PROTOCOL = Protocol(lrs=(0.1,), proxy_steps=10, steps=10, final_steps=10)


class Residual(nn.Module):
    """Needs vmap."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.out = nn.Linear(6, 9), nn.Linear(9, 6), nn.Linear(6, 3)

    def forward(self, x):
        return self.out(x + self.back(self.wide(x).relu()))


def perceptron():
    return nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3))


@pytest.mark.parametrize("model", [perceptron, Residual])
def test_a_step_of_a_stack_reads_no_value_back(model):
    """Reading a value, which synchronizes with the device, fails on `meta`; so do CPU tensors."""
    rules = [entry.rule for name, entry in zoo.items() if name not in NUMBER_FIRST]
    recipes = [*rules, parse_recipe("torch:adamw+cosine")]
    data = torch.randn(60, 6), torch.randint(3, (60,))
    task = Task.from_module(model, data, cross_entropy, batch_size=8, protocol=PROTOCOL)
    runs = [Run(r, 0.1, s, 10, device=META) for r in recipes for s in (0, 1)]
    stack = Stack(task, [runs[i] for i in arranged(runs)])
    for step in (1, 2):
        losses = stack.step(step)
    assert losses.device.type == "meta"
    assert losses.shape == (len(runs),)
    assert {matrix.device.type for matrix in stack.copies.matrices} == {"meta"}
    with pytest.raises(RuntimeError, match="meta"):
        float(losses[0])  # reading a value does fail
