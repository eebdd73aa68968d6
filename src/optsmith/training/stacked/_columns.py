"""The layout of the matrices that hold the parameters of all copies, one row per copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from optsmith.optim import uniforms
from optsmith.rules import stream_key

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Columns:
    """The parameters stored in the columns of a matrix, in order.

    Attributes:
        parameters: Index of each parameter in the model.
        shapes: Shape of each parameter.
    """

    parameters: tuple[int, ...]
    shapes: tuple[Shape, ...]

    @property
    def sizes(self) -> list[int]:
        """Number of elements of each parameter."""
        return [torch.Size(shape).numel() for shape in self.shapes]

    def __len__(self) -> int:
        return sum(self.sizes)

    def parts(self) -> list[tuple[slice, Shape]]:
        """Return the columns and the shape of each parameter."""
        bounds = pairwise(accumulate(self.sizes, initial=0))
        return [(slice(*b), shape) for b, shape in zip(bounds, self.shapes, strict=True)]

    def keys(self, seeds: Sequence[int], node: int) -> list[list[int]]:
        """Return the random keys of an operator: a list over seeds for each parameter."""
        return [[stream_key(seed, node, p) for seed in seeds] for p in self.parameters]

    def uniforms(self, keys: Sequence[Sequence[int]], t: int, device: torch.device) -> Tensor:
        """Return the random numbers that separate optimizers would draw, one row per seed."""
        pairs = zip(keys, self.sizes, strict=True)
        return torch.cat(
            [uniforms(of_seeds, t, 0, size, device) for of_seeds, size in pairs], dim=1
        )
