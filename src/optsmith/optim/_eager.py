"""The default back end: eager code, tensor by tensor or on lists, whichever is quicker."""

from __future__ import annotations

from optsmith.optim._backend import Backend
from optsmith.optim._batch import Batch
from optsmith.optim._foreach import Lists
from optsmith.optim._machine import Machine
from optsmith.optim._plan import Plan
from optsmith.optim._program import Program

SMALL = 1 << 14
"""Tensors of up to this many elements are updated together."""


class Eager(Backend[Batch]):
    """Runs small tensors, and all on a GPU, as lists, the others one by one.

    Args:
        program: The program.

    Attributes:
        machine: What runs tensors one by one.
        lists: What runs lists.
    """

    def __init__(self, program: Program) -> None:
        plan = Plan(program)
        self.machine = Machine(program, plan)
        self.lists = Lists(program, plan)

    def step(self, given: Batch) -> None:
        """Update parameters and their states in place."""
        if given.params and given.params[0].device.type == "cuda":
            self.lists.step(given)
            return
        # Small tensors cost calls, and are best done together; large ones cost memory traffic.
        small, large = given.split([p.numel() <= SMALL for p in given.params])
        self.lists.step(small)
        self.machine.step(large)
