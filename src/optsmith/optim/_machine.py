"""Eager execution in place, one tensor at a time.

Large tensors are processed in chunks that fit in the cache, because eager code makes many passes
over its data. Programs of scope "tensor" run on whole tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._backend import Backend
from optsmith.optim._batch import Batch
from optsmith.optim._plan import Plan
from optsmith.optim._program import Program, Scalars

CHUNK = 1 << 17
"""Number of elements processed at a time."""


class PlanRunner:
    """Runs a plan on one piece of a parameter at a time, and updates the piece.

    Back ends choose the pieces: parts of a tensor or of a stack of copies, or whole tensors if the
    program has scope "tensor".

    Args:
        program: The program.
        plan: Its plan.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.code = program.code
        self.program, self.plan = program, plan
        self._literals: dict[torch.dtype, list[Any]] = {}

    def registers(self, scalars: Scalars, dtype: torch.dtype, dims: int = 0) -> list[Any]:
        """Return registers with the values that all pieces share in a step.

        Args:
            scalars: The result of `Program.scalars`.
            dtype: Precision of the arithmetic.
            dims: Dimensions of a copy, if the scalars vary between copies.
        """
        literals = self._literals.get(dtype)
        if literals is None:
            literals = self._literals[dtype] = [
                torch.tensor(x, dtype=dtype) if as_tensor else x
                for as_tensor, x in self.plan.literals
            ]
        return [*self.program.tensors(scalars, dtype, dims), *scalars, *literals]

    def run(
        self,
        registers: list[Any],
        param: Tensor,
        gradient: Tensor,
        buffers: Sequence[Tensor],
        noise: Sequence[Tensor],
        scale: float,
        rates: Tensor | None = None,
        last: Tensor | None = None,
    ) -> None:
        """Update a piece of a parameter and of its state in place.

        Args:
            registers: A copy of the result of `registers`; overwritten.
            param: The piece of the parameter.
            gradient: The piece of the gradient.
            buffers: The pieces of the state, then the scratch buffers.
            noise: The random numbers of the piece, one tensor per random operator.
            scale: Factor of the update.
            rates: Additional factors, one per copy.
            last: An additional scratch buffer, required with `rates`.
        """
        registers[self.code.gradient.index] = gradient
        if self.program.uses_parameter:
            registers[self.code.parameter.index] = param.to(gradient.dtype)
        for value, numbers in zip(self.code.uniforms, noise, strict=True):
            registers[value.index] = numbers
        self.plan.run(registers, buffers)
        if rates is None:
            self._finish(registers, param, scale)
        else:
            self._finish_copies(registers, param, scale, rates, last)
        self.plan.settle(registers, buffers)

    def _finish(self, registers: list[Any], param: Tensor, scale: float) -> None:
        """Update the parameter; in half precision, a quotient is applied to a float32 copy."""
        if self.plan.quotient is None:
            result = registers[self.plan.result.index]
            if self.plan.result.is_scalar:
                param.add_(result * scale)
            else:
                param.add_(_numbers(result, param), alpha=scale)
            return
        above, below = (registers[v.index] for v in self.plan.quotient)
        wide = param if param.dtype == above.dtype else param.to(above.dtype)
        wide.addcdiv_(above, below, value=scale)
        if wide is not param:
            param.copy_(wide)

    def _finish_copies(
        self,
        registers: list[Any],
        param: Tensor,
        scale: float,
        rates: Tensor,
        last: Tensor | None,
    ) -> None:
        """Update the parameter with one rate per copy."""
        if self.plan.quotient is not None:
            above, below = (registers[v.index] for v in self.plan.quotient)
            param.addcmul_(torch.div(above, below, out=last), rates, value=scale)
            return
        result = registers[self.plan.result.index]
        if self.plan.result.is_scalar:
            param.add_(rates * (result * scale))
        else:
            param.addcmul_(_numbers(result, param), rates, value=scale)


class Machine(Backend[Batch]):
    """Runs a plan in place, one tensor at a time.

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
        """Update a contiguous parameter in chunks."""
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


def _numbers(result: Tensor, param: Tensor) -> Tensor:
    """Return a boolean result as numbers, because torch would round `scale` next to booleans."""
    return result if result.is_floating_point() else result.to(param.dtype)
