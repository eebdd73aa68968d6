"""Which runs are trained together: decided by the library, by sizes and a check, never by a clock.

How a product of matrices is rounded may depend on their shapes. On the CPUs tried so far it does
not (a row of the concatenated product has the same bits in a stack of 1 and of 80), but nothing
promises it. So the stacks are a function of the task and the runs alone; then the same call gives
the same bits, whatever the machine is doing, with any number of workers, and after a resume.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby, pairwise
from weakref import WeakKeyDictionary

import torch

from optsmith.evaluation._examine import Footprint, NotStackableError, examine
from optsmith.evaluation._stacked import form_of
from optsmith.optim import Program, Recipe
from optsmith.task import Run, Task

log = logging.getLogger("optsmith")

MOST_COPIES = 64
"""Copies in a stack; more are split."""

MOST_BYTES = 1 << 30
"""Memory of a stack; a fixed number, so that the numbers do not depend on the machine's memory."""

_KNOWN: WeakKeyDictionary[Task, dict[str, Footprint | None]] = WeakKeyDictionary()


def stacks(task: Task, runs: Sequence[Run]) -> list[list[int]]:
    """Return which runs are trained together, by their places in `runs`; one alone is plain.

    Runs of equal length, device and purpose are put together, those of a recipe side by side, and
    split evenly into stacks that fit `MOST_BYTES` and `MOST_COPIES`.
    """

    def kind(i: int) -> tuple[str, int, bool]:
        return str(runs[i].device), runs[i].steps, runs[i].final

    def place(i: int) -> tuple[str, int, float]:
        return str(runs[i].recipe), runs[i].seed, runs[i].lr

    chosen: list[list[int]] = []
    for _, group in groupby(sorted(range(len(runs)), key=kind), key=kind):
        members = sorted(group, key=place)
        footprint = _footprint(task, runs[members[0]].device) if len(members) > 1 else None
        most = 1 if footprint is None else _most(footprint, [runs[i] for i in members])
        count = -(-len(members) // most)
        bounds = [len(members) * j // count for j in range(count + 1)]
        chosen += [members[a:b] for a, b in pairwise(bounds)]
    return chosen


def stack_bytes(footprint: Footprint, recipes: Sequence[Recipe], copies: int) -> int:
    """Return the memory that a stack takes at most.

    Parameters, gradients and a copy of both while they are arranged, the state of the recipe that
    has the most, and the activations with their gradients.
    """
    slots = max(len(Program(form_of(recipe).rule).slots) for recipe in set(recipes))
    return copies * (footprint.parameters * (4 + slots) + 2 * footprint.activations)


def _most(footprint: Footprint, runs: Sequence[Run]) -> int:
    one = stack_bytes(footprint, [run.recipe for run in runs], 1)
    return max(1, min(MOST_COPIES, MOST_BYTES // one))


def _footprint(task: Task, device: torch.device) -> Footprint | None:
    """Return what a copy takes; None when the task cannot be stacked, which is said once."""
    try:
        known = _KNOWN.setdefault(task, {})
    except TypeError:  # a class of the user's whose objects are no keys: nothing is remembered
        known = {}
    if str(device) not in known:
        try:
            known[str(device)] = examine(task, device)
        except NotStackableError as reason:
            log.info("%s: runs are trained one at a time: %s", task.name, reason)
            known[str(device)] = None
    return known[str(device)]
