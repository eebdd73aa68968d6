"""Default back end: eager execution, on lists of tensors or one tensor at a time."""

from __future__ import annotations

from optsmith.optim._backend import Backend
from optsmith.optim._batch import Batch
from optsmith.optim._foreach import Lists
from optsmith.optim._machine import Machine
from optsmith.optim._plan import Plan
from optsmith.optim._program import Program

SMALL = 1 << 14
"""Maximum number of elements of tensors that are updated together on a CPU."""


class Eager(Backend[Batch]):
    """Updates small tensors on a CPU, and all tensors on a GPU, together; others one at a time.

    Programs with functions of whole tensors update all tensors together, so that those of the same
    shape are computed at once.

    Args:
        program: The program.

    Attributes:
        machine: Back end for single tensors.
        lists: Back end for lists.
    """

    def __init__(self, program: Program) -> None:
        plan = Plan(program)
        self._together = program.scope == "tensor"
        self.machine = Machine(program, plan)
        self.lists = Lists(program, plan)

    def step(self, given: Batch) -> None:
        """Update parameters and their states in place."""
        if self._together or (given.params and given.params[0].device.type == "cuda"):
            self.lists.step(given)
            return
        # Calls dominate the time of small tensors, memory traffic that of large ones.
        small, large = given.split([p.numel() <= SMALL for p in given.params])
        self.lists.step(small)
        self.machine.step(large)
