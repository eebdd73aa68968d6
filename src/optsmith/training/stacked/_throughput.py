"""A quick probe of throughput: whether copies of a model train faster in a stack, and how many."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from optsmith._threads import one_thread
from optsmith.rules import Rule
from optsmith.task import ModuleTask, Run
from optsmith.training._plain import seeded
from optsmith.training.stacked._stack import Stack

SMALL_STACK = 8
"""Copies of the stack that is tried first."""

PAYS = 1.1
"""How much faster than by itself a copy must train in a stack."""

GAINS = 1.2
"""How much faster than in a large stack it must train in the small one, for that to be used."""

ROUNDS, SECONDS = 12, 0.5
"""Steps that are timed; fewer, but at least 3, when they take longer."""

_RULE = Rule.parse("Adam")
_LR = 1e-3


def best_size(task: ModuleTask, device: torch.device, most: int) -> tuple[int, float]:
    """Return the copies that a stack should have at most, and how many times as fast it trains.

    Args:
        task: A task whose runs can be stacked.
        device: Where to train.
        most: Copies that fit; at least 2.
    """
    small = min(SMALL_STACK, most)
    alone, stacked = seconds_per_copy(task, device, 1, small)
    if alone < PAYS * stacked:
        return 1, alone / stacked
    if small == most:
        return small, alone / stacked
    alone, stacked, large = seconds_per_copy(task, device, 1, small, most)
    size, chosen = (small, stacked) if large > GAINS * stacked else (most, large)
    return size if alone >= PAYS * chosen else 1, alone / chosen


def seconds_per_copy(task: ModuleTask, device: torch.device, *sizes: int) -> list[float]:
    """Return what a step takes each copy of stacks of several sizes; 1 is the plain loop.

    They take turns, and the best time counts: what disturbs a machine only ever adds to it. One
    thread, as in an evaluation.
    """
    with one_thread(), seeded(0, device):
        steps = [_stepper(task, device, size) for size in sizes]
        times: list[list[float]] = [[] for _ in sizes]
        begun = time.perf_counter()
        for turn in range(ROUNDS):
            for step, taken in zip(steps, times, strict=True):
                start = time.perf_counter()
                step()
                taken.append(time.perf_counter() - start)
            if turn >= 3 and time.perf_counter() - begun > SECONDS:
                break
    # The first step prepares what the others use again.
    return [min(taken[1:]) / size for taken, size in zip(times, sizes, strict=True)]


def _stepper(task: ModuleTask, device: torch.device, size: int) -> Callable[[], None]:
    """Return a function that trains so many copies one step, and waits for it."""
    runs = [Run(_RULE, _LR * (1 + i / 64), 0, 2 * ROUNDS, device=device) for i in range(size)]
    if size == 1:
        training = task.start(runs[0])

        def step() -> None:
            next(training)
            _wait(device)

        return step
    stack = Stack(task, runs)
    done = 0

    def stacked_step() -> None:
        nonlocal done
        done += 1
        stack.step(done)
        _wait(device)

    return stacked_step


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
