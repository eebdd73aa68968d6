"""Models, tasks and comparisons shared by the tests of stacks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Protocol, Run, Task
from optsmith.task import accuracy
from optsmith.training._stopping import Stopping

CPU = torch.device("cpu")
PROTOCOL = Protocol(lrs=(0.1,), proxy_steps=10, steps=30, final_steps=30)
LRS = (0.003, 0.03)
SEEDS = (0, 1)
STEPS = 30


def digits(count=200, seed=0):
    """Return points around 5 centres, and the index of each point's centre."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(5, (count,), generator=generator)
    centres = torch.randn(5, 12, generator=torch.Generator().manual_seed(99))
    return centres[labels] + torch.randn(count, 12, generator=generator), labels


def perceptron():
    return nn.Sequential(
        nn.Linear(12, 8), nn.Sigmoid(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 5)
    )


def sorting(module=perceptron, **settings):
    """Return a task on the training loss, or on validation data if these are given."""
    defaults = {"test": digits(80, 1), "metric": accuracy, "batch_size": 16, "protocol": PROTOCOL}
    if "validation" not in settings:
        defaults["objective"] = "training loss"
    return Task.from_module(module, digits(), cross_entropy, **defaults | settings)


def runs_of(recipes, lrs=LRS, seeds=SEEDS, steps=STEPS, final=False):
    return [Run(r, lr, s, steps, final) for s in seeds for r in recipes for lr in lrs]


def never(task):
    return Stopping(task.objective)


def number(point):
    """Return a value of a signal, NaN if it is not finite: rounding may turn one into another."""
    return point[1] if math.isfinite(point[1]) else math.nan


def same(stacked, plain, tolerance=1e-4):
    """Assert that two traces are equal except for their time."""
    assert stacked.stopped == plain.stopped
    assert [step for step, _ in stacked.signal] == [step for step, _ in plain.signal]
    values, others = (list(map(number, t.signal)) for t in (stacked, plain))
    # A loss near 0 is a difference of larger numbers, and as exact as these are.
    scale = max((abs(value) for value in others if not math.isnan(value)), default=0.0)
    near = pytest.approx(others, rel=tolerance, abs=1e-6 * min(scale, 1.0), nan_ok=True)
    assert values == near
    assert stacked.metrics == pytest.approx(plain.metrics, rel=tolerance, nan_ok=True)
    assert stacked.state_bytes == pytest.approx(plain.state_bytes, nan_ok=True)
