"""Tasks that cannot be stacked are detected and trained plainly."""

from __future__ import annotations

import logging
import re

import pytest
import torch
from stack_samples import CPU, PROTOCOL, digits, never, perceptron, runs_of, same, sorting
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Task, zoo
from optsmith.training import _train, choose_stacking, train_once
from optsmith.training.stacked import _choose
from optsmith.training.stacked._stacking import stacks
from tasks_for_tests import bowl


class OwnLoop(type(sorting())):
    def start(self, run):
        return super().start(run)


class Choosing(nn.Linear):
    """Has control flow that depends on the weights."""

    def forward(self, x):
        return super().forward(x) if self.weight.sum() > 0 else -super().forward(x)


class Shuffling(nn.Linear):
    def forward(self, x):
        return super().forward(x) + torch.rand(5)


class Unused(nn.Linear):
    def __init__(self):
        super().__init__(12, 5)
        self.spare = nn.Parameter(torch.ones(3))


class Counting(nn.Linear):
    """Computes a different function in each call of any instance."""

    calls = 0

    def forward(self, x):
        Counting.calls += 1
        return super().forward(x) * Counting.calls


def frozen():
    model = perceptron()
    model[0].weight.requires_grad_(False)
    return model


def tied():
    model = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 12), nn.Linear(12, 5))
    model[2].weight = model[0].weight
    return model


def twice():
    layer = nn.Linear(12, 12)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.Linear(12, 5))


def large():
    return nn.Sequential(nn.Linear(12, 60_000), nn.ReLU(), nn.Linear(60_000, 5))


def busy():
    return nn.Sequential(nn.Linear(12, 5000), *(nn.Tanh() for _ in range(60)), nn.Linear(5000, 5))


def not_reduced(output, target):
    return cross_entropy(output, target, reduction="none").mean(dim=0, keepdim=True)


def loader():
    x, y = digits(32)
    return [(x[i : i + 16], y[i : i + 16]) for i in (0, 16)]


PLAIN = {
    "function": (bowl, "a training loop of its own"),
    "own loop": (
        lambda: OwnLoop(perceptron, digits(), cross_entropy, protocol=PROTOCOL),
        "a training loop of its own",
    ),
    "loader": (
        lambda: Task.from_module(
            perceptron, loader(), cross_entropy, objective="training loss", protocol=PROTOCOL
        ),
        "a loader",
    ),
    "dropout": (lambda: sorting(lambda: nn.Sequential(perceptron(), nn.Dropout())), "vmap cannot"),
    "randomness": (lambda: sorting(lambda: Shuffling(12, 5)), "vmap cannot"),
    "control flow": (lambda: sorting(lambda: Choosing(12, 5)), "vmap cannot"),
    "tied": (lambda: sorting(tied), "share parameters"),
    "twice": (lambda: sorting(twice), "share parameters"),
    "frozen": (lambda: sorting(frozen), "frozen"),
    "unused": (lambda: sorting(Unused), "not used|vmap cannot"),
    "other numbers": (lambda: sorting(lambda: Counting(12, 5)), "different numbers"),
    "large": (lambda: sorting(large), "keeps the CPU busy"),
    "large activations": (lambda: sorting(busy), "keeps the CPU busy"),
    "half": (
        lambda: Task.from_module(
            lambda: perceptron().bfloat16(),
            (digits()[0].bfloat16(), digits()[1]),
            cross_entropy,
            protocol=PROTOCOL,
        ),
        "precision",
    ),
    "loss of one element": (
        lambda: Task.from_module(perceptron, digits(), not_reduced, protocol=PROTOCOL),
        "not a scalar",
    ),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_what_cannot_be_stacked_is_trained_plainly_and_says_so_once(kind, caplog):
    make, reason = PLAIN[kind]
    task = make()
    runs = runs_of([zoo["adam"].rule], steps=5)
    with caplog.at_level(logging.INFO, "optsmith"):
        for _ in range(2):
            stacking = choose_stacking(task, CPU)
            assert sorted(stacks(stacking, runs)) == [[0], [1], [2], [3]]
    assert len(caplog.records) == 1
    assert "one at a time" in caplog.text
    assert re.search(reason, stacking.reason)
    if kind not in ("other numbers", "large", "loss of one element"):
        traces = _train.train(task, runs, never(task), stacking)
        for trace, run in zip(traces, runs, strict=True):
            same(trace, train_once(task, run))


def test_a_decision_is_known_for_the_life_of_the_task_alone():
    task = sorting()
    chosen = choose_stacking(task, CPU)
    assert choose_stacking(task, CPU) is chosen
    before = len(_choose._chosen)
    del task
    assert len(_choose._chosen) == before - 1


def test_tasks_that_define_equality_without_a_hash_are_told_apart():
    class Unhashable(OwnLoop):
        __hash__ = None

    task = Unhashable(perceptron, digits(), cross_entropy, protocol=PROTOCOL)
    assert choose_stacking(task, CPU).copies == 1
    assert choose_stacking(task, CPU) is choose_stacking(task, CPU)
