"""The choice of a stack's size: by a rule, so that every machine and every day choose alike.

Copies of a small model train faster side by side because each call of torch has a fixed cost. Once
a copy alone keeps the processor busy nothing is gained, and large stacks lose what its cache holds.
The limits below were fitted to benchmarks/results/stacking.txt.
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
    "other": ((1.25 * MIB, MOST_COPIES),),
}
"""On a CPU, by kind of model: bytes of parameters and activations of one copy, and the copies per
stack up to that size."""

_SLOTS = 2
"""State tensors per parameter that a stack should have room for."""

_chosen: ObjectCache[Stacking] = ObjectCache()


def choose_stacking(task: Task, device: torch.device, copies: int | None = None) -> Stacking:
    """Return how the runs of a task are trained: cached per task, and logged once.

    Stacks are used where the rule says that they are faster and a check says that they give the
    same numbers as the plain loop.

    Args:
        task: The task.
        device: Where to train.
        copies: Copies per stack instead of the rule's; 1 trains runs one at a time.

    Raises:
        TaskError: `copies` asks for stacks, and the task's runs cannot be stacked.
    """
    return _chosen.get(task, (str(device), copies), lambda: _choose(task, device, copies))


def _choose(task: Task, device: torch.device, copies: int | None) -> Stacking:
    if copies is not None and copies < 1:
        raise TaskError(f"a stack has at least 1 copy, not {copies}")
    if copies == 1:
        return Stacking(reason="as asked for")
    try:
        one = footprint(task, device)
        wanted = copies_for(one, device) if copies is None else copies
        if wanted > 1:
            check_stack(task, device)
    except NotStackableError as error:
        if copies is not None:
            raise TaskError(
                f"runs of {task.name} cannot be stacked: {error}; leave the size of stacks out"
            ) from None
        chosen = Stacking(reason=str(error))
    else:
        chosen = Stacking(wanted, one.parameters, one.activations)
        if wanted == 1:
            chosen = replace(chosen, reason="the model is large enough to keep a CPU busy")
        elif chosen.fitting(_SLOTS) == 1:
            chosen = replace(chosen, copies=1, reason="two copies of the model would not fit")
    if chosen.reason:
        log.info("%s: runs are trained one at a time: %s", task.name, chosen.reason)
    return chosen


def copies_for(one: Footprint, device: torch.device) -> int:
    """Return how many copies of a model are trained together.

    On other devices than a CPU, calls cost more than arithmetic: stacks are as large as allowed.
    """
    if device.type != "cpu":
        return MOST_COPIES
    size = one.parameters + one.activations
    limits = CPU_LIMITS[one.kind]
    return next((copies for limit, copies in limits if size <= limit), 1)
