"""Which runs are trained together: a function of the runs and of one decision about the task.

How a product of matrices is rounded may depend on their shapes. On the CPUs tried so far it does
not (a row of the concatenated product has the same bits in a stack of 1 and of 80), but nothing
promises it. So stacks depend on nothing else: the same call gives the same bits, whatever the
machine is doing, with any number of workers, and after a resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from optsmith.optim import Program, Recipe, form_of
from optsmith.task import Run

MOST_COPIES = 64
"""Copies in a stack; more are split."""

MOST_BYTES = 1 << 30
"""Memory of a stack; a fixed number, so that the numbers do not depend on the machine's memory."""


@dataclass(frozen=True, slots=True)
class Stacking:
    """How the runs of a task are trained on a device.

    Attributes:
        copies: Copies of the model in a stack, at most; 1 trains runs one at a time.
        parameters: Bytes of a copy's parameters.
        activations: Bytes that a copy's forward pass keeps for the backward pass.
        reason: Why runs are trained one at a time, if they are.
    """

    copies: int = 1
    parameters: int = 0
    activations: int = 0
    reason: str = ""

    def copy_bytes(self, slots: int) -> int:
        """Return the memory that a copy takes at most, with so many tensors of state a parameter.

        Parameters, gradients and a copy of both while they are arranged, the state, and the
        activations with their gradients.
        """
        return self.parameters * (4 + slots) + 2 * self.activations

    def fitting(self, slots: int) -> int:
        """Return how many copies a stack may have."""
        return max(1, min(self.copies, MOST_BYTES // max(1, self.copy_bytes(slots))))


def stacks(stacking: Stacking, runs: Sequence[Run]) -> list[list[int]]:
    """Return which runs are trained together, by their places in `runs`; one alone is plain.

    Runs of equal length, device and purpose are put together, as many recipes as fit. Those of one
    recipe, which may race each other, are kept together; if they do not fit, they are split evenly.
    Recipes that are not expressible as rules are trained one run at a time.
    """
    if stacking.copies == 1:
        return [[i] for i in range(len(runs))]
    slots = {recipe: _slots(recipe) for recipe in {run.recipe for run in runs}}

    def kind(i: int) -> tuple[str, int, bool]:
        return str(runs[i].device), runs[i].steps, runs[i].final

    def place(i: int) -> tuple[str, int, float]:
        return str(runs[i].recipe), runs[i].seed, runs[i].lr

    chosen = [[i] for i, run in enumerate(runs) if slots[run.recipe] is None]
    stackable = [i for i, run in enumerate(runs) if slots[run.recipe] is not None]
    for _, group in groupby(sorted(stackable, key=kind), key=kind):
        members = sorted(group, key=place)
        most = stacking.fitting(max(slots[runs[i].recipe] or 0 for i in members))
        stack: list[int] = []
        for _, of_recipe in groupby(members, key=lambda i: str(runs[i].recipe)):
            for block in _split(list(of_recipe), most):
                if len(stack) + len(block) > most:
                    chosen.append(stack)
                    stack = []
                stack = [*stack, *block]
        chosen.append(stack)
    return chosen


def _split(members: Sequence[int], most: int) -> list[Sequence[int]]:
    """Return parts of at most so many, as even as can be."""
    count = -(-len(members) // most)
    bounds = [len(members) * j // count for j in range(count + 1)]
    return [members[a:b] for a, b in pairwise(bounds)]


def _slots(recipe: Recipe) -> int | None:
    """Return the state tensors per parameter of a recipe; None when it is not a rule."""
    form = form_of(recipe)
    return None if form is None else len(Program(form.rule).slots)
