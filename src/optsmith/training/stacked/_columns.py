"""Parameters of a model that share a matrix with one row per copy."""

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
    """Which parameter each column of a matrix belongs to, and which of its elements it is.

    Attributes:
        parameters: Number of each parameter in the model.
        shapes: Shape of each.
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
        """Return the columns of each parameter, and its shape."""
        bounds = pairwise(accumulate(self.sizes, initial=0))
        return [(slice(*b), shape) for b, shape in zip(bounds, self.shapes, strict=True)]

    def keys(self, seeds: Sequence[int], node: int) -> list[list[int]]:
        """Return the keys of a random operator: of each parameter, for each seed."""
        return [[stream_key(seed, node, p) for seed in seeds] for p in self.parameters]

    def uniforms(self, keys: Sequence[Sequence[int]], t: int, device: torch.device) -> Tensor:
        """Return the numbers that optimizers of their own would draw, a row for each seed."""
        pairs = zip(keys, self.sizes, strict=True)
        return torch.cat(
            [uniforms(of_seeds, t, 0, size, device) for of_seeds, size in pairs], dim=1
        )
