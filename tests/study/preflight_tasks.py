"""Tasks for the tests of what is tried out before a search."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

import optsmith
from optsmith import Task
from optsmith.study._preflight import preflight
from tasks_for_tests import PROTOCOL, line_data

X, Y = line_data()
TEST = line_data(32, 1)
TRAINING = {"objective": "training loss"}
G = optsmith.Rule.parse("g")

INDEPENDENT = (
    "the loss of the task mine does not depend on its parameters: {}; compute the loss from the"
    " model's output, without detach, item or no_grad, and call backward"
)


def check(task):
    return preflight(task, PROTOCOL, "cpu")


def module_task(module=lambda: nn.Linear(4, 1), data=(X, Y), loss=F.mse_loss, **settings) -> Task:
    defaults = {"batch_size": 16, "protocol": PROTOCOL, "name": "mine", **TRAINING}
    return Task.from_module(module, data, loss, **defaults | settings)


def own_loop(body) -> Task:
    return Task.from_function(body, protocol=PROTOCOL, name="mine")


def stepping(loss_of, after=lambda optimizer, weights: None, params=None):
    def train(run):
        weights = torch.randn(3, requires_grad=True)
        optimizer = run.optimizer([weights] if params is None else params())
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = loss_of(weights)
            loss.backward()
            optimizer.step()
            after(optimizer, weights)
            yield loss.detach()

    return train


def square(weights):
    return (weights**2).sum()
