"""The choice of the stack size, by a deterministic rule rather than a benchmark.

Stacking speeds up small models because every torch call has a fixed cost. It does not help once a
single copy keeps the CPU busy, and large stacks exceed the CPU cache. The limits below were fitted
to benchmarks/results/stacking.txt.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import torch

from optsmith._cache import ObjectCache
from optsmith._errors import TaskError
from optsmith.task import Task
from optsmith.training.stacked._check import (
    Footprint,
    Kind,
    NotStackableError,
    check_stack,
    footprint,
)
from optsmith.training.stacked._stacking import MOST_COPIES, Stacking

log = logging.getLogger("optsmith")

MIB = 1 << 20
CPU_LIMITS: dict[Kind, tuple[tuple[float, int], ...]] = {
    "perceptron": ((MIB, MOST_COPIES), (3 * MIB, 8)),
    "convolutions": ((MIB, MOST_COPIES), (2.5 * MIB, 8)),
    "tokens": ((1.5 * MIB, MOST_COPIES), (3 * MIB, 16)),
    "other": ((1.25 * MIB, MOST_COPIES),),
}
"""Limits on a CPU by type of model: maximum bytes of parameters and activations per copy, and the
number of copies per stack up to that limit."""

_SLOTS = 2
"""State tensors per parameter assumed when checking that a stack fits in memory."""

_chosen: ObjectCache[Stacking] = ObjectCache()


def choose_stacking(task: Task, device: torch.device, copies: int | None = None) -> Stacking:
    """Return how the runs of a task are trained; cached per task and logged once.

    Stacks are used if `copies_for` predicts a speed-up and a check shows that they give the same
    numbers as plain training.

    Args:
        task: The task.
        device: The device to train on.
        copies: Copies per stack, instead of the automatic choice; 1 disables stacking.

    Raises:
        TaskError: `copies` is invalid, or above 1 for a task whose runs cannot be stacked.
    """
    return _chosen.get(task, (str(device), copies), lambda: _choose(task, device, copies))


def _choose(task: Task, device: torch.device, copies: int | None) -> Stacking:
    if copies is not None and copies < 1:
        raise TaskError(f"a stack must have at least 1 copy, not {copies}")
    if copies == 1:
        return Stacking(reason="stacking is disabled")
    try:
        one = footprint(task, device)
        wanted = copies_for(one, device) if copies is None else copies
        if wanted > 1:
            check_stack(task, device)
    except NotStackableError as error:
        if copies is not None:
            raise TaskError(
                f"runs of {task.name} cannot be stacked: {error}; do not set the stack size"
            ) from None
        chosen = Stacking(reason=str(error))
    else:
        chosen = Stacking(wanted, one.parameters, one.activations)
        if wanted == 1:
            chosen = replace(chosen, reason="a single copy of the model keeps the CPU busy")
        elif chosen.fitting(_SLOTS) == 1:
            chosen = replace(
                chosen, copies=1, reason="two copies of the model do not fit in memory"
            )
    if chosen.reason:
        log.info("%s: runs are trained one at a time: %s", task.name, chosen.reason)
    return chosen


def copies_for(one: Footprint, device: torch.device) -> int:
    """Return the number of copies per stack.

    On devices other than a CPU, the fixed cost of calls dominates, so stacks are as large as
    allowed.
    """
    if device.type != "cpu":
        return MOST_COPIES
    size = one.parameters + one.activations
    limits = CPU_LIMITS[one.kind]
    return next((copies for limit, copies in limits if size <= limit), 1)
