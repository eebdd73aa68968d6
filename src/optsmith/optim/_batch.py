"""`Batch`: parameters that one step updates together, with their gradients and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from optsmith.optim._program import Program, Scalars
from optsmith.optim._uniforms import uniforms


@dataclass(slots=True)  # not frozen: freezing costs microseconds per step
class Batch:
    """Parameters with the same device, precision and number of updates, at one step.

    Attributes:
        program: The program.
        params: The parameters.
        gradients: The rule's inputs, in the precision of the arithmetic.
        states: The state of each parameter, in the order of `program.slots`.
        keys: The keys of the random streams of each parameter.
        scalars: The result of `program.scalars`.
        lr: Learning rate.
        t: Step of the run, from 1.
        dtype: Precision of the arithmetic.
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
        """Return the random numbers for elements start … end of parameter i, per operator."""
        device = self.params[i].device
        by_key = (uniforms([key], self.t, start, end, device) for key in self.keys[i])
        return [numbers[0].to(self.dtype) for numbers in by_key]

    def only(self, chosen: Sequence[int]) -> Batch:
        """Return the batch of the parameters with these indices."""
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
        """Return two batches: the chosen parameters, and the others."""
        if all(chosen):
            return self, self.only([])
        if not any(chosen):
            return self.only([]), self
        every = range(len(self.params))
        return self.only([i for i in every if chosen[i]]), self.only(
            [i for i in every if not chosen[i]]
        )

    def is_contiguous(self, i: int) -> bool:
        """Return whether parameter i, its gradient and its state are contiguous."""
        return all(t.is_contiguous() for t in (self.params[i], self.gradients[i], *self.states[i]))
