"""Runs a plan on pieces of tensors: what the eager back ends have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._plan import Plan
from optsmith.optim._program import Program, Scalars


class PlanRunner:
    """Runs the steps of a plan on one piece at a time, the last step on the parameter included.

    A piece is any part of a tensor, or of the copies of one, as the back end cuts it; whole tensors
    where the program needs them.

    Args:
        program: The program.
        plan: Its plan.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.code = program.code
        self.program, self.plan = program, plan
        self._literals: dict[torch.dtype, list[Any]] = {}

    def registers(self, scalars: Scalars, dtype: torch.dtype) -> list[Any]:
        """Return the registers with all that one step shares between pieces."""
        literals = self._literals.get(dtype)
        if literals is None:
            literals = self._literals[dtype] = [
                torch.tensor(x, dtype=dtype) if as_tensor else x
                for as_tensor, x in self.plan.literals
            ]
        return [*self.program.tensors(scalars, dtype), *scalars, *literals]

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
            registers: From `registers`; overwritten.
            param: The piece of the parameter.
            gradient: That of its gradient.
            buffers: Those of its state, then scratch.
            noise: Its random numbers, one tensor for each random operator.
            scale: What the update is multiplied by.
            rates: Further factors, one for each copy.
            last: One more scratch buffer, which rates need.
        """
        registers[self.code.gradient.index] = gradient
        for value, numbers in zip(self.code.uniforms, noise, strict=True):
            registers[value.index] = numbers
        self.plan.run(registers, buffers)
        if rates is None:
            self._finish(registers, param, scale)
        else:
            self._finish_copies(registers, param, scale, rates, last)
        self.plan.settle(registers, buffers)

    def _finish(self, registers: list[Any], param: Tensor, scale: float) -> None:
        """Take the step; in half precision through a wider copy of the parameter."""
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
        """Take the step, each copy with its rate."""
        if self.plan.quotient is not None:
            above, below = (registers[v.index] for v in self.plan.quotient)
            param.addcmul_(torch.div(above, below, out=last), rates, value=scale)
            return
        result = registers[self.plan.result.index]
        if self.plan.result.is_scalar:
            param.add_(rates * (result * scale))
        else:
            param.addcmul_(_numbers(result, param), rates, value=scale)


def _numbers(result: Tensor, param: Tensor) -> Tensor:
    """Return numbers for booleans, which a rule may end in: beside one, torch rounds the scale."""
    return result if result.is_floating_point() else result.to(param.dtype)
