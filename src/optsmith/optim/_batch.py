"""What one step needs to know of parameters that are updated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith.optim._program import Program, Scalars
from optsmith.optim._uniforms import uniforms


@dataclass(slots=True)  # not frozen, which costs microseconds at every step
class Batch:
    """Parameters of one device, precision and number of updates, at one step.

    Attributes:
        program: The program.
        params: The parameters.
        gradients: Their gradients as the rule sees them, in the precision of the arithmetic.
        states: Their states, in the program's order.
        keys: The keys of their random streams.
        scalars: The step's scalars, as the program gives them.
        lr: The learning rate.
        t: The step of the run, from 1.
        dtype: The precision of the arithmetic.
    """

    program: Program
    params: Sequence[Tensor]
    gradients: Sequence[Tensor]
    states: Sequence[Sequence[Tensor]]
    keys: Sequence[Sequence[int]]
    scalars: Scalars
    lr: float
    t: int
    dtype: torch.dtype

    def noise(self, i: int, start: int, end: int) -> list[Tensor]:
        """Return the random numbers of elements start … end of parameter i."""
        device = self.params[i].device
        by_key = (uniforms([key], self.t, start, end, device) for key in self.keys[i])
        return [numbers[0].to(self.dtype) for numbers in by_key]

    def only(self, chosen: Sequence[int]) -> Batch:
        """Return the batch of some of the parameters."""
        return Batch(
            self.program,
            params=[self.params[i] for i in chosen],
            gradients=[self.gradients[i] for i in chosen],
            states=[self.states[i] for i in chosen],
            keys=[self.keys[i] for i in chosen],
            scalars=self.scalars,
            lr=self.lr,
            t=self.t,
            dtype=self.dtype,
        )

    def split(self, chosen: Sequence[bool]) -> tuple[Batch, Batch]:
        """Return the batch of the chosen parameters and that of the others."""
        if all(chosen):
            return self, self.only([])
        if not any(chosen):
            return self.only([]), self
        every = range(len(self.params))
        return self.only([i for i in every if chosen[i]]), self.only(
            [i for i in every if not chosen[i]]
        )

    def is_contiguous(self, i: int) -> bool:
        """Return whether parameter i and all that belongs to it can be seen as flat vectors."""
        return all(t.is_contiguous() for t in (self.params[i], self.gradients[i], *self.states[i]))
