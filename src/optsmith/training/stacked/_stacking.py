"""The assignment of runs to stacks, a function of the runs and of one decision per task.

The rounding of a matrix product may depend on the shapes. On the CPUs tested so far it does not (a
row of the concatenated product is bitwise equal in stacks of 1 and of 80), but this is not
guaranteed. Stacks therefore depend only on the runs and the decision: equal calls give bitwise
equal results with any load, any number of workers, and after a resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from optsmith.optim import Program, Recipe, form_of
from optsmith.rules import for_role
from optsmith.task import Run

MOST_COPIES = 64
"""Maximum number of copies per stack."""

MOST_BYTES = 1 << 30
"""Maximum memory of a stack; fixed, so that results do not depend on the machine."""


@dataclass(frozen=True, slots=True)
class Stacking:
    """How the runs of a task are trained on a device.

    Attributes:
        copies: Maximum number of copies per stack; 1 trains runs one at a time.
        parameters: Bytes of parameters per copy.
        activations: Bytes per copy that the forward pass saves for the backward pass.
        reason: Why runs are trained one at a time; empty if they are stacked.
    """

    copies: int = 1
    parameters: int = 0
    activations: int = 0
    reason: str = ""

    def copy_bytes(self, slots: int) -> int:
        """Return the maximum memory of a copy, given the number of state tensors per parameter.

        It counts parameters and gradients with a temporary copy of both, the optimizer state, and
        the activations with their gradients.
        """
        return self.parameters * (4 + slots) + 2 * self.activations

    def fitting(self, slots: int) -> int:
        """Return the maximum number of copies of a stack that fits in memory."""
        return max(1, min(self.copies, MOST_BYTES // max(1, self.copy_bytes(slots))))


def stacks(stacking: Stacking, runs: Sequence[Run]) -> list[list[int]]:
    """Return the stacks as lists of indices into `runs`; a single run is trained plainly.

    Runs of equal length and device are stacked, search and final runs separately. The runs of one
    recipe stay together because they may be halved; if they do not fit, they are split evenly.
    Recipes that cannot be expressed as rules are trained one run at a time.
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
    """Return parts of at most `most` members and of nearly equal size."""
    count = -(-len(members) // most)
    bounds = [len(members) * j // count for j in range(count + 1)]
    return [members[a:b] for a, b in pairwise(bounds)]


def _slots(recipe: Recipe) -> int | None:
    """Return the number of state tensors per parameter; None if the recipe is not a rule."""
    form = form_of(recipe)
    if form is None:
        return None
    return max(len(Program(for_role(form.rule, hidden)).slots) for hidden in (True, False))
