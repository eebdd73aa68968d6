"""Small tasks with known answers, shared by tests."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import mse_loss

from optsmith import Objective, Protocol, Run, Task

PROTOCOL = Protocol(
    lrs=(0.01, 0.1, 1.0), proxy_steps=10, steps=12, final_steps=20, score_seeds=2, final_seeds=2,
    threshold=10.0,
)  # fmt: skip


def quadratic(run: Run):
    """Minimizes |w|^2 / 2 from a random start."""
    w = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([w])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = (w**2).sum() / 2
        loss.backward()
        optimizer.step()
        yield loss.detach()
    return {"distance": float(w.detach().norm())} if run.final else None


def bowl(**settings) -> Task:
    return Task.from_function(quadratic, **{"protocol": PROTOCOL, "name": "bowl", **settings})


def line_data(count: int = 64, seed: int = 0):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return x, x.sum(dim=1, keepdim=True)


def close(output, target):
    return ((output - target).abs() < 0.5).float().mean()


def line(**settings) -> Task:
    """Return a task on the training loss, or on validation data if these are given."""
    defaults = {"test": line_data(32, 1), "batch_size": 16, "protocol": PROTOCOL, "name": "line"}
    if "validation" not in settings:
        defaults["objective"] = "training loss"
    return Task.from_module(lambda: nn.Linear(4, 1), line_data(), mse_loss, **defaults | settings)


ACCURACY = Objective("accuracy", "maximize", "last")
