"""Eager execution in place, tensor by tensor.

Large tensors are worked through in pieces that stay in the cache, so that the many short passes of
eager code do not all go to memory. Programs that need whole tensors run on whole tensors.
"""

from __future__ import annotations

import torch

from optsmith.optim._backend import Backend
from optsmith.optim._batch import Batch
from optsmith.optim._plan import Plan
from optsmith.optim._program import Program
from optsmith.optim._runner import PlanRunner

CHUNK = 1 << 17
"""Elements worked on at a time."""


class Machine(Backend[Batch]):
    """Runs a program's steps in place on single tensors.

    Args:
        program: The program.
        plan: Its plan.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self._in_pieces = program.scope == "element"
        self._scratch = plan.scratch
        self._plan = plan
        self._runner = PlanRunner(program, plan)

    def step(self, given: Batch) -> None:
        """Update parameters and their states in place."""
        if not given.params:
            return
        registers = self._runner.registers(given.scalars, given.dtype)
        scale = self._plan.scale(given.lr, given.scalars)
        for i, p in enumerate(given.params):
            if self._in_pieces and given.is_contiguous(i):
                self._step_flat(given, i, registers, scale)
                continue
            g = given.gradients[i]
            scratch = [torch.empty_like(g) for _ in range(self._scratch)]
            noise = [u.view(p.shape) for u in given.noise(i, 0, p.numel())]
            buffers = [*given.states[i], *scratch]
            self._runner.run(registers.copy(), p, g, buffers, noise, scale)

    def _step_flat(self, batch: Batch, i: int, registers: list[object], scale: float) -> None:
        """Update one parameter in pieces."""
        param, gradient, *state = (
            t.view(-1) for t in (batch.params[i], batch.gradients[i], *batch.states[i])
        )
        size = param.numel()
        scratch = [gradient.new_empty(min(size, CHUNK)) for _ in range(self._scratch)]
        if size <= CHUNK:
            noise = batch.noise(i, 0, size)
            self._runner.run(registers.copy(), param, gradient, [*state, *scratch], noise, scale)
            return
        for start in range(0, size, CHUNK):
            end = min(start + CHUNK, size)
            p, g, *buffers = (t[start:end] for t in (param, gradient, *state))
            buffers += scratch if end - start == CHUNK else [t[: end - start] for t in scratch]
            noise = batch.noise(i, start, end)
            self._runner.run(registers.copy(), p, g, buffers, noise, scale)
