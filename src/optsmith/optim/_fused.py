"""Execution by torch.compile: one kernel that reads and writes each number once."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from optsmith.optim._batch import Batch
from optsmith.optim._program import Program, Scalars, cast, element_numbers

BUCKET = 16
"""Tensors in one compiled call: more make calls fewer and compilation longer."""


class FusedStep:
    """Compiled steps of one program; everything that changes from step to step is a tensor.

    Args:
        program: The program.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        # torch limits how often one code object is compiled; each program gets a copy of its own,
        # and so do single numbers, whose size torch compiles into the code.
        self._many: Any = torch.compile(_own_copy(self._function()), fullgraph=True, dynamic=True)
        self._single: Any = torch.compile(
            _own_copy(self._function()), fullgraph=True, dynamic=False
        )

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
        """Update contiguous parameters and their states in place."""
        scalars = cast(batch.scalars, batch.dtype)
        lr, t = torch.tensor(batch.lr, dtype=batch.dtype), torch.tensor(batch.t)
        sizes = [p.numel() for p in batch.params]
        many = [i for i, size in enumerate(sizes) if size > 1]
        single = [i for i, size in enumerate(sizes) if size == 1]
        for function, chosen in ((self._many, many), (self._single, single)):
            for start in range(0, len(chosen), BUCKET):
                part = batch.only(chosen[start : start + BUCKET])
                function(
                    [p.view(-1) for p in part.params],
                    [g.view(-1) for g in part.gradients],
                    [[s.view(-1) for s in state] for state in part.states],
                    scalars,
                    lr,
                    [[torch.tensor(k) for k in keys] for keys in part.keys],
                    t,
                )


def _own_copy(function: Any) -> Any:
    return FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
