"""Mistakes in a loop that are found before a search, and sound loops that are not refused."""

from __future__ import annotations

import random

import pytest
import torch
from preflight_tasks import INDEPENDENT, X, Y, check, own_loop, square, stepping
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from optsmith import TaskError
from optsmith._errors import TaskFailure


def no_optimizer(run):
    weights = torch.randn(3, requires_grad=True)
    for _ in range(run.steps):
        yield (weights**2).sum().detach()


def no_step(run):
    weights = torch.randn(3, requires_grad=True)
    run.optimizer([weights])
    for _ in range(run.steps):
        loss = (weights**2).sum()
        loss.backward()
        yield loss.detach()


def own_step(run):
    weights = torch.randn(3, requires_grad=True)
    run.optimizer([weights])
    own = torch.optim.Adam([weights])
    for _ in range(run.steps):
        own.zero_grad()
        loss = (weights**2).sum()
        loss.backward()
        own.step()
        yield loss.detach()


def frozen(run):
    weights = torch.randn(3, requires_grad=True)
    start = weights.detach().clone()
    optimizer = run.optimizer([weights])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            weights.copy_(start)
        yield loss.detach()


def zero_rate(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        optimizer.step()
        yield loss.detach()


def unseeded(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights) * (1 + random.random())
        loss.backward()
        optimizer.step()
        yield loss.detach()


def shared_model():
    weights = torch.ones(3, requires_grad=True)

    def train(run):
        optimizer = run.optimizer([weights])
        for _ in range(run.steps):
            optimizer.zero_grad()
            loss = square(weights)
            loss.backward()
            optimizer.step()
            yield loss.detach()

    return train


def too_short(run):
    yield from list(stepping(square)(run))[:-1]


def broadcasting(run):
    model = nn.Linear(4, 1)
    optimizer = run.optimizer(model)
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(X), Y[:, 0])
        loss.backward()
        optimizer.step()
        yield loss.detach()


def subtracting(run):
    model = nn.Linear(4, 1)
    optimizer = run.optimizer(model)
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = ((Y[:, 0] - model(X)) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def radial(run):
    """Subtract as many centres as there are examples, which are parameters."""
    centres = nn.Parameter(torch.linspace(-1, 1, len(X)))
    out = nn.Linear(len(X), 1)
    optimizer = run.optimizer([centres, *out.parameters()])
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = ((out(torch.exp(-((X[:, :1] - centres) ** 2))) - Y) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def odd_metrics(value):
    def train(run):
        yield from stepping(square)(run)
        return value if run.final else None

    return train


LOOPS = {
    "no optimizer": (
        no_optimizer,
        "the task mine never calls run.optimizer: get its optimizer from run.optimizer(model),"
        " which is the rule under test",
    ),
    "no step": (
        no_step,
        "the task mine never steps the optimizer from run.optimizer: call its step() before each"
        " yield",
    ),
    "another optimizer": (
        own_step,
        "the task mine never steps the optimizer from run.optimizer, but steps one of its own"
        " (Adam): call its step() before each yield",
    ),
    "detached": (
        stepping(lambda w: square(w.detach())),
        INDEPENDENT.format("it has no gradient"),
    ),
    "other parameters": (
        stepping(square, params=lambda: [torch.ones(2, requires_grad=True)]),
        INDEPENDENT.format("the parameters given to run.optimizer have no gradients"),
    ),
    "times zero": (
        stepping(lambda w: 0 * square(w) + 1),
        INDEPENDENT.format("all gradients are zero"),
    ),
    "weights set back": (
        frozen,
        "the weights of the task mine are the same after 2 steps: the loop must not set them or"
        " the learning rate back after optimizer.step()",
    ),
    "rate of zero": (
        zero_rate,
        "the weights of the task mine are the same after 2 steps: the loop must not set them or"
        " the learning rate back after optimizer.step()",
    ),
    "not finite": (
        stepping(lambda w: square(w) * float("nan")),
        "the task mine starts with a signal that is not finite: nan",
    ),
    "wrong number of steps": (
        too_short,
        "the task mine must yield 2 steps with a signal at the last; it yielded 1, and its last"
        " signal was at step 1",
    ),
    "broadcast": (
        broadcasting,
        "the targets of the task mine broadcast against the outputs: shapes (64,) and (64, 1) give"
        " (64, 64); reshape the targets to (64, 1)",
    ),
    "broadcast by a subtraction": (
        subtracting,
        "the targets of the task mine broadcast against the outputs: shapes (64,) and (64, 1) give"
        " (64, 64); reshape the targets to (64, 1)",
    ),
    "metrics without names": (
        odd_metrics(0.5),
        'the task mine must return its metrics by name, such as {"accuracy": 0.9}, or nothing,'
        " not 0.5",
    ),
    "a metric that is a list": (
        odd_metrics({"accuracy": [1, 2]}),
        'the metric "accuracy" of the task mine must be one number, not [1, 2]',
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_mistake_in_a_loop_is_one_sentence(name):
    body, sentence = LOOPS[name]
    with pytest.raises(TaskError) as caught:
        check(own_loop(body))
    assert str(caught.value) == sentence
    assert not isinstance(caught.value, TaskFailure)


@pytest.mark.parametrize("body", [unseeded, shared_model()], ids=["unseeded", "shared model"])
def test_equal_runs_must_be_equal(body):
    with pytest.raises(TaskError, match="equal runs of the task mine give different signals") as e:
        check(own_loop(body))
    assert str(e.value).endswith(
        "make the model and everything random anew in each run, with torch's generator or a"
        " generator seeded with run.seed"
    )


# --- what is not refused --------------------------------------------------------------------------


def warm_up(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 5))
    for _ in range(run.steps):
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        optimizer.step()
        schedule.step()
        yield loss.detach()


def closures(run):
    weights = torch.randn(3, requires_grad=True)
    optimizer = run.optimizer([weights])

    def closure():
        optimizer.zero_grad()
        loss = square(weights)
        loss.backward()
        return loss

    for _ in range(run.steps):
        yield optimizer.step(closure).detach()


def two_optimizers(run):
    pair = [torch.randn(3, requires_grad=True) for _ in range(2)]
    optimizers = [run.optimizer([weights]) for weights in pair]
    own = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    for step in range(run.steps):
        loss = sum(map(square, pair))
        optimizers[step % 2].zero_grad()
        loss.backward()
        optimizers[step % 2].step()
        own.step()
        yield loss.item()


def test_a_subtraction_of_parameters_may_broadcast():
    check(own_loop(radial))


@pytest.mark.parametrize("body", [warm_up, closures, two_optimizers, stepping(square)])
def test_sound_loops_pass(body):
    assert check(own_loop(body)).notes == ()
