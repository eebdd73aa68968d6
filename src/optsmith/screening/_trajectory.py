"""Fixed sequences of gradients and weights on which the probe runs rules."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from optsmith.rules import uniform


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Gradients and weights of consecutive steps.

    Args:
        gradients: Gradients in float64, one row per step.
        taus: Time of each step, as a fraction of the run.
        period: Columns at this distance have the same random numbers.
        recorded: Steps at which the rule's output is recorded; the others only update state.
        shape: Shape of the tensors that each row is split into; by default, a row is one vector.
        weights: Weights in float64, one row per step; None: all 0.
    """

    gradients: Tensor
    taus: Tensor
    period: int
    recorded: range
    shape: tuple[int, ...] | None = None
    weights: Tensor | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.gradients.shape[0]

    @property
    def columns(self) -> int:
        """Number of elements per step."""
        return self.gradients.shape[1]

    def stacks(self, rows: Tensor, as_vectors: bool = False) -> Tensor:
        """Return the tensors of some or all steps, as a stack of steps times tensors.

        Args:
            rows: Values, one row per step.
            as_vectors: Whether to return each tensor as a vector.
        """
        shape = self.shape or (self.columns,)
        return rows.view(len(rows), -1, *((prod(shape),) if as_vectors else shape))

    def uniform(self, key: int) -> Tensor:
        """Return the uniform numbers of a random stream, in the shape of the gradients."""
        elements = torch.arange(self.columns) % self.period
        return torch.stack([uniform(key, k + 1, elements) for k in range(self.steps)])

    def marks(self) -> Tensor:
        """Return a mask of the elements of recorded steps."""
        marks = torch.zeros(self.gradients.shape, dtype=torch.bool)
        marks[list(self.recorded)] = True
        return marks


def gaussian(rng: random.Random, steps: int, elements: int, scale: float = 1.0) -> Tensor:
    """Return normal numbers that do not depend on the versions of libraries."""
    values = [[rng.gauss(0.0, scale) for _ in range(elements)] for _ in range(steps)]
    return torch.tensor(values, dtype=torch.float64)


def drifting(rng: random.Random, steps: int, elements: int, scale: float) -> Tensor:
    """Return weights that change by about a hundredth of themselves per step."""
    start = gaussian(rng, 1, elements, scale)
    moves = gaussian(rng, steps, elements, 0.01) * start.abs()
    return start + moves.cumsum(0)
