"""The decision whether the runs of a task are trained in stacks: by a check and by a clock."""

from __future__ import annotations

import logging
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch

from optsmith.task import Task
from optsmith.training.stacked._check import NotStackableError, as_stackable, examine
from optsmith.training.stacked._stacking import MOST_COPIES, Stacking
from optsmith.training.stacked._throughput import best_size

log = logging.getLogger("optsmith")

_SLOTS = 2
"""Tensors of state a parameter that a stack should have room for."""

_KNOWN: WeakKeyDictionary[Task, dict[str, Stacking]] = WeakKeyDictionary()


def choose_stacking(task: Task, device: torch.device) -> Stacking:
    """Return how the runs of a task are trained; found out once, and said once.

    Stacks are used where they give the same numbers as the plain loop and are faster. A clock may
    decide otherwise another day, so what has to be repeatable keeps the answer.
    """
    try:
        known = _KNOWN.setdefault(task, {})
    except TypeError:  # a class of the user's whose objects are no keys: nothing is remembered
        known = {}
    if str(device) not in known:
        chosen = known[str(device)] = _choose(task, device)
        if chosen.reason:
            log.info("%s: runs are trained one at a time: %s", task.name, chosen.reason)
    return known[str(device)]


def _choose(task: Task, device: torch.device) -> Stacking:
    try:
        footprint = examine(task, device)
    except NotStackableError as reason:
        return Stacking(reason=str(reason))
    stacking = Stacking(MOST_COPIES, footprint.parameters, footprint.activations)
    most = stacking.fitting(_SLOTS)
    if most == 1:
        return replace(stacking, copies=1, reason="two copies of the model would not fit")
    try:
        size, times = best_size(as_stackable(task), device, most)
    except Exception as error:  # what two copies could do, many may not, such as fit on the device
        line = str(error).strip().partition("\n")[0]
        return replace(stacking, copies=1, reason=f"a stack cannot be trained ({line})")
    if size == 1:
        return replace(stacking, copies=1, reason=f"stacked, they train {times:.2f} times as fast")
    # What fits is found anew for every rule; the clock has only ruled out large stacks.
    return replace(stacking, copies=size if size < most else MOST_COPIES)
