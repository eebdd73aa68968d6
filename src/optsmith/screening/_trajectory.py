"""Fixed sequences of gradients and weights on which the probe runs rules."""

from __future__ import annotations

import random
from collections.abc import Sequence
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
        shapes: Shapes of the tensors that a row is split into; the list is repeated until the row
            is complete. By default, a row is one vector.
        weights: Weights in float64, one row per step; None: all 0.
    """

    gradients: Tensor
    taus: Tensor
    period: int
    recorded: range
    shapes: tuple[tuple[int, ...], ...] = ()
    weights: Tensor | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.gradients.shape[0]

    @property
    def columns(self) -> int:
        """Number of elements per step."""
        return self.gradients.shape[1]

    def split(self, rows: Tensor, as_vectors: bool = False) -> list[Tensor]:
        """Return the tensors of each shape, as stacks of steps times tensors.

        Args:
            rows: Values of some or all steps, one row per step.
            as_vectors: Whether to return each tensor as a vector.
        """
        shapes = self.shapes or ((self.columns,),)
        sizes = [prod(shape) for shape in shapes]
        groups = torch.split(rows.view(len(rows), -1, sum(sizes)), sizes, 2)
        return [
            group if as_vectors else group.reshape(*group.shape[:2], *shape)
            for group, shape in zip(groups, shapes, strict=True)
        ]

    def join(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the values of `split` as one flat vector."""
        groups = [x.reshape(*x.shape[:2], -1) for x in tensors]
        return (groups[0] if len(groups) == 1 else torch.cat(groups, 2)).reshape(-1)

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
