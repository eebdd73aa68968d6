"""Execution by torch.compile: one kernel that reads and writes each number once."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from optsmith._errors import OptimizerError
from optsmith.optim._batch import Batch
from optsmith.optim._program import Program, Scalars, element_numbers

BUCKET = 16
"""Tensors in one compiled call: more make calls fewer and compilation longer."""


class FusedStep:
    """Compiled steps of one program; everything that changes from step to step is a tensor.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        # torch limits how often one code object is compiled: each program gets a copy of its own.
        self._step: Any = torch.compile(_own_copy(self._function()), fullgraph=True, dynamic=True)

    def _function(self) -> Callable[..., None]:
        program = self.program

        def step(
            params: list[Tensor],
            gradients: list[Tensor],
            states: list[list[Tensor]],
            scalars: Scalars,
            lr: Tensor,
            keys: list[list[Tensor]],
            t: Tensor,
        ) -> None:
            for p, g, state, key in zip(params, gradients, states, keys, strict=True):
                wide = state[0].dtype if state else lr.dtype
                noise = program.uniforms(key, t, element_numbers(g), wide) if key else []
                update, new = program.apply(g.to(wide), state, scalars, noise)
                p.copy_(p.to(wide) - lr * update)
                for old, slot in zip(state, new, strict=True):
                    old.copy_(slot)

        return step

    def step(self, batch: Batch) -> None:
        """Update parameters and their states in place: contiguous ones of more than one number.

        (torch would compile a size of 1 into the code.)
        """
        scalars = batch.program.tensors(batch.scalars, batch.dtype)
        lr, t = torch.tensor(batch.lr, dtype=batch.dtype), torch.tensor(batch.t)
        for start in range(0, len(batch.params), BUCKET):
            part = batch.only(range(start, min(start + BUCKET, len(batch.params))))
            arguments = (
                [p.view(-1) for p in part.params],
                [g.view(-1) for g in part.gradients],
                [[s.view(-1) for s in state] for state in part.states],
                scalars,
                lr,
                [[torch.tensor(k) for k in keys] for keys in part.keys],
                t,
            )
            try:
                self._step(*arguments)
            except torch._dynamo.exc.Unsupported as error:
                reason = str(error).partition("\n")[0]
                raise OptimizerError(
                    f"an operator of {self.program.rule} cannot be compiled ({reason}):"
                    " leave compile out"
                ) from error


def _own_copy(function: Any) -> Any:
    return FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
