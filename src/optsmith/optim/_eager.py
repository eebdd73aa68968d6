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

SMALL_WHOLE = 1 << 16
"""The same for programs with functions of whole tensors, where calls cost more."""


class Eager(Backend[Batch]):
    """Updates small tensors on a CPU, and all tensors on a GPU, together; others one at a time.

    Functions of whole tensors are computed at once for tensors of the same shape that are updated
    together.

    Args:
        program: The program.

    Attributes:
        machine: Back end for single tensors.
        lists: Back end for lists.
    """

    def __init__(self, program: Program) -> None:
        plan = Plan(program)
        self._is_whole = program.scope == "tensor"
        self.machine = Machine(program, plan)
        self.lists = Lists(program, plan)

    def step(self, given: Batch) -> None:
        """Update parameters and their states in place."""
        if given.params and given.params[0].device.type == "cuda":
            self.lists.step(given)
            return
        # Calls dominate the time of small tensors, memory traffic that of large ones.
        most = SMALL_WHOLE if self._is_whole else SMALL
        small, large = given.split([p.numel() <= most for p in given.params])
        self.lists.step(small)
        self.machine.step(large)
