"""Whether stacks are used: decided by a check and by a clock."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from optsmith import Protocol, Task
from optsmith.training import choose_stacking
from optsmith.training.stacked import _throughput
from optsmith.training.stacked._throughput import best_size, seconds_per_copy
from tasks_for_tests import line

CPU = torch.device("cpu")


def clock(monkeypatch, *, alone: float, small: float, large: float) -> list[tuple[int, ...]]:
    """Have copies take these times, by the size of their stack; return what is measured."""
    asked = []

    def seconds(task, device, *sizes):
        asked.append(sizes)
        return [alone if n == 1 else small if n == 8 else large for n in sizes]

    monkeypatch.setattr(_throughput, "seconds_per_copy", seconds)
    return asked


@pytest.mark.parametrize(
    ("alone", "small", "large", "copies"),
    [
        (1.0, 0.5, 0.2, 64),
        (1.0, 0.5, 0.55, 64),  # not worth the smaller stack
        (1.0, 0.5, 0.7, 8),
        (1.0, 0.8, 0.95, 1),  # the second look finds that neither pays
        (1.0, 0.95, 0.1, 1),  # larger stacks are not tried where small ones do not pay
        (1.0, 2.0, 2.0, 1),
    ],
)
def test_the_faster_way_is_taken(monkeypatch, caplog, alone, small, large, copies):
    asked = clock(monkeypatch, alone=alone, small=small, large=large)
    with caplog.at_level(logging.INFO, "optsmith"):
        chosen = choose_stacking(line(), CPU)
    assert chosen.copies == copies
    assert chosen.parameters == 4 * 5
    assert bool(chosen.reason) == (copies == 1) == ("one at a time" in caplog.text)
    assert asked[0] == (1, 8)
    assert len(asked) == 1 or asked[1] == (1, 8, 64)


def test_what_does_not_fit_is_not_tried(monkeypatch):
    asked = clock(monkeypatch, alone=1.0, small=0.5, large=0.5)
    assert best_size(line(), CPU, most=5) == (5, 2.0)
    assert asked == [(1, 5)]


def test_a_stack_that_fails_is_not_used(monkeypatch):
    def fail(*_):
        raise RuntimeError("out of memory\nand more")

    monkeypatch.setattr(_throughput, "seconds_per_copy", fail)
    chosen = choose_stacking(line(), CPU)
    assert (chosen.copies, chosen.reason) == (1, "a stack cannot be trained (out of memory)")


def test_times_are_measured_and_nothing_else_changes():
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    times = seconds_per_copy(line(), CPU, 1, 4)
    assert len(times) == 2
    assert min(times) > 0
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_convolutions_are_stacked_or_not_as_the_clock_says(monkeypatch):
    def network():
        return nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 5)
        )

    generator = torch.Generator().manual_seed(0)
    data = torch.randn(40, 1, 8, 8, generator=generator), torch.arange(40) % 5
    protocol = Protocol(lrs=(0.1,), proxy_steps=10, steps=10, final_steps=10)

    def task():
        return Task.from_module(network, data, cross_entropy, batch_size=8, protocol=protocol)

    clock(monkeypatch, alone=1.0, small=0.5, large=1.0)
    assert choose_stacking(task(), CPU).copies == 8
    clock(monkeypatch, alone=1.0, small=1.5, large=1.5)
    assert "0.67 times" in choose_stacking(task(), CPU).reason
