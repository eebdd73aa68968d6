"""Eager execution in place, tensor by tensor.

Large tensors are worked through in pieces that stay in the cache, so that the many short passes of
eager code do not all go to memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from optsmith.optim._batch import Batch
from optsmith.optim._plan import Plan
from optsmith.optim._program import Program

CHUNK = 1 << 17
"""Elements worked on at a time."""


class Machine:
    """Runs a program's steps in place on single tensors.

    Args:
        program: The program.
        plan: Its plan.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.program = program
        self.code = program.code
        self.plan = plan
        self._literals: dict[torch.dtype, list[Any]] = {}

    def step(self, batch: Batch) -> None:
        """Update parameters and their states in place."""
        if not batch.params:
            return
        registers = self._registers(batch)
        scale = self.plan.scale(batch.lr, batch.scalars)
        for i, (p, g, state) in enumerate(
            zip(batch.params, batch.gradients, batch.states, strict=True)
        ):
            size = p.numel()
            if not batch.is_contiguous(i):
                scratch = [torch.empty_like(g) for _ in range(self.plan.scratch)]
                noise = [u.view(p.shape) for u in batch.noise(i, 0, size)]
                self._run(registers.copy(), p, g, [*state, *scratch], noise, scale)
                continue
            scratch = [g.new_empty(min(size, CHUNK)) for _ in range(self.plan.scratch)]
            flat = [t.view(-1) for t in (p, g, *state)]
            for start in range(0, size, CHUNK):
                end = min(start + CHUNK, size)
                piece = flat if size <= CHUNK else [t[start:end] for t in flat]
                room = scratch if start == 0 else [t[: end - start] for t in scratch]
                noise = batch.noise(i, start, end)
                buffers = [*piece[2:], *room]
                self._run(registers.copy(), piece[0], piece[1], buffers, noise, scale)

    def _registers(self, batch: Batch) -> list[Any]:
        """Return the registers with all that one step shares between tensors."""
        literals = self._literals.get(batch.dtype)
        if literals is None:
            literals = self._literals[batch.dtype] = [
                torch.tensor(x, dtype=batch.dtype) if as_tensor else x
                for as_tensor, x in self.plan.literals
            ]
        tensors = self.program.tensors(batch.scalars, batch.dtype)
        return [*tensors, *batch.scalars, *literals]

    def _run(
        self,
        registers: list[Any],
        param: Tensor,
        gradient: Tensor,
        buffers: list[Tensor],
        noise: list[Tensor],
        scale: float,
    ) -> None:
        registers[self.code.gradient.index] = gradient
        for value, numbers in zip(self.code.uniforms, noise, strict=True):
            registers[value.index] = numbers
        self.plan.run(registers, buffers)
        self._finish(registers, param, scale)
        self.plan.settle(registers, buffers)

    def _finish(self, registers: list[Any], param: Tensor, scale: float) -> None:
        """Take the step; in half precision through a wider copy of the parameter."""
        if self.plan.quotient is None:
            result = registers[self.plan.result.index]
            if self.plan.result.is_scalar:
                param.add_(result * scale)
            else:
                # A rule may end in a comparison; beside a boolean, torch would round the scale.
                wide = result if result.is_floating_point() else result.to(param.dtype)
                param.add_(wide, alpha=scale)
            return
        above, below = (registers[v.index] for v in self.plan.quotient)
        wide = param if param.dtype == above.dtype else param.to(above.dtype)
        wide.addcdiv_(above, below, value=scale)
        if wide is not param:
            param.copy_(wide)
